//! No sweep file, however hostile, takes more than a bounded share of memory and time.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use support::Scratch;

const LIMIT_KIB: &str = "131072";

/// Reads a file with little memory; answers what is wrong with it.
fn refusal(name: &str, text: &str) -> String {
    let scratch = Scratch::new();
    scratch.write("sweep.yaml", text);
    let began = Instant::now();
    let output = Command::new("bash")
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\"", LIMIT_KIB])
        .arg(env!("CARGO_BIN_EXE_sweepctl"))
        .args(["submit", "--local", "sweep.yaml"])
        .current_dir(scratch.path(""))
        .env("HOME", scratch.path(""))
        .output()
        .expect("bash runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{name}: {stderr}");
    assert!(began.elapsed() < Duration::from_secs(20), "{name}: {:?}", began.elapsed());
    stderr
}

#[test]
fn hostile_files_are_refused_within_bounds() {
    let laughs: String = (1..40)
        .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", ")))
        .collect();
    let million = |text: &str| text.repeat(1_000_000);
    let table = [
        (
            "laughs",
            format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{laughs}"),
            "more than 100000 values",
        ),
        ("brackets", million("["), "recursion limit"),
        ("braces", million("{a: "), ""),
        ("dashes", million("- "), "deeper than 128 levels"),
        ("list", format!("a: [{}]\n", million("1, ")), "more than 100000 values"),
        ("lines", "a: 1\n".repeat(60_000), "more than 100000 values"),
        ("keys", (0..60_000).map(|n| format!("a{n}: 1\n")).collect(), "more than 100000 values"),
        ("word", format!("a: {}\n", "x".repeat(2_000_000)), ""),
        ("quote", format!("a: \"{}\n", "\\n\\x41 ".repeat(100_000)), ""),
        ("block", format!("a: |\n{}", "  x\n".repeat(300_000)), ""),
        ("anchors", million("&a "), ""),
        ("questions", million("? "), ""),
        ("size", "#".repeat(9 << 20), "larger than 8 MiB"),
        ("line ends", million("\n\n"), "the file is empty"),
        ("line ends before a fault", million("\n\n") + "]", "not YAML"),
        ("returns before a fault", million("\r\r") + "]", "not YAML"),
        ("a long name", format!("{}: 1\n", million("xxxxx")), ""),
        ("names of anchors", format!("a: x{}\n", million(":&")), ""),
        ("accents", format!("\"e{}\": 1\n]", million("\u{301}")), ""),
    ];
    for (name, text, want) in table {
        let found = refusal(name, &text);
        assert!(found.contains(want), "{name}: {found}");
        assert!(found.len() < 100_000, "{name}: a message of {} bytes", found.len());
    }
}
