//! The program's output on its way through us: copied as it comes, read for metrics, its end kept.

use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::GIVE_UP_AFTER;
use crate::job::metrics::{self, Row};

/// How much of a program's output is kept.
const TAIL: usize = 64 << 10;

/// What was gathered from output so far.
#[derive(Debug, Default)]
struct Gathered {
    summary: Row,
    tail: VecDeque<u8>,
}

/// One of the program's streams, and what is done with it besides copying it to ours.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) from: PipeReader,
    /// To our stderr, not to our stdout.
    pub(super) is_stderr: bool,
    pub(super) metrics: bool,
    pub(super) tail: bool,
}

/// Threads that copy the program's output to ours.
///
/// Threads, as writing to a stdout that nobody empties blocks, and signals must go through still.
#[derive(Debug, Default)]
pub(super) struct Copying {
    gathered: Arc<Mutex<Gathered>>,
    done: Vec<oneshot::Receiver<()>>,
}

impl Copying {
    pub(super) fn start(streams: Vec<Stream>) -> io::Result<Self> {
        let mut copying = Self::default();
        for stream in streams {
            let (sender, done) = oneshot::channel();
            let gathered = Arc::clone(&copying.gathered);
            std::thread::Builder::new().name("output".into()).spawn(move || {
                if stream.is_stderr {
                    copy(&stream, &mut io::stderr(), &gathered);
                } else {
                    copy(&stream, &mut io::stdout(), &gathered);
                }
                let _ = sender.send(());
            })?;
            copying.done.push(done);
        }
        Ok(copying)
    }

    /// The metrics and the end of the output, once all is copied; what is stuck behind a stuck stdout is given up.
    pub(super) async fn finish(self) -> (Row, Vec<u8>) {
        for done in self.done {
            let _ = timeout(GIVE_UP_AFTER, done).await;
        }
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut gathered.summary), std::mem::take(&mut gathered.tail).into())
    }
}

/// Copies bytes as they come, and reads lines on the way; a `\r` ends one too (progress bars).
fn copy(stream: &Stream, to: &mut impl io::Write, gathered: &Mutex<Gathered>) {
    use io::Read as _;
    let gather = || gathered.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines = metrics::Lines::default();
    let read_line = |line: &[u8]| {
        for part in line.split(|byte| *byte == b'\r') {
            gather().summary.extend(metrics::parse_printed(part));
        }
    };
    let mut from = &stream.from;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let bytes = &buffer[..count];
                // If nobody reads our stdout any more, the program must go on nevertheless.
                let _ = to.write_all(bytes).and_then(|()| to.flush());
                if stream.metrics {
                    lines.push(bytes, read_line);
                }
                if stream.tail {
                    let tail = &mut gather().tail;
                    tail.extend(bytes);
                    let surplus = tail.len().saturating_sub(TAIL);
                    tail.drain(..surplus);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    if stream.metrics {
        lines.end(read_line);
    }
}
