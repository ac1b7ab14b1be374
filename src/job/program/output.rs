//! The program's stdout on its way through us: copied as it comes, and read for metrics.

use std::io::{self, PipeReader};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::GIVE_UP_AFTER;
use crate::job::metrics::{self, Row};

/// A thread that copies the program's stdout to ours and reads its metrics.
///
/// A thread, as writing to a stdout that nobody empties blocks, and signals must go through still.
#[derive(Debug)]
pub(super) struct Copying {
    summary: Arc<Mutex<Row>>,
    done: oneshot::Receiver<()>,
}

impl Copying {
    pub(super) fn start(output: PipeReader) -> io::Result<Self> {
        let summary = Arc::new(Mutex::new(Row::new()));
        let (sender, done) = oneshot::channel();
        let shared = Arc::clone(&summary);
        std::thread::Builder::new().name("stdout".into()).spawn(move || {
            copy(output, &mut io::stdout(), &shared);
            let _ = sender.send(());
        })?;
        Ok(Self { summary, done })
    }

    /// The metrics, once all output is copied; what is stuck behind a stuck stdout is given up.
    pub(super) async fn finish(self) -> Row {
        let _ = timeout(GIVE_UP_AFTER, self.done).await;
        self.summary.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Copies bytes as they come, and reads lines on the way; a `\r` ends one too (progress bars).
fn copy(mut from: impl io::Read, to: &mut impl io::Write, summary: &Mutex<Row>) {
    let mut lines = metrics::Lines::default();
    let read_line = |line: &[u8]| {
        for part in line.split(|byte| *byte == b'\r') {
            let row = metrics::parse_printed(part);
            summary.lock().unwrap_or_else(PoisonError::into_inner).extend(row);
        }
    };
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                // If nobody reads our stdout any more, the program must go on nevertheless.
                let _ = to.write_all(&buffer[..count]).and_then(|()| to.flush());
                lines.push(&buffer[..count], read_line);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    lines.end(read_line);
}
