//! Lines for people and programs. A reader that has gone is no reason to stop: the sweep goes on.

/// `println!`, which does not panic when nobody reads.
macro_rules! out {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}

/// `eprintln!`, which does not panic when nobody reads.
macro_rules! err {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}

pub(crate) use {err, out};
