//! The signals of a job: caught from its first moment to its last, and handed out once each.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};

use rustix::process::Signal;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

/// The signals we catch, the mildest first: of two that arrive at once, SLURM's CONT before its
/// TERM, or a USR1 warning before the end, the program gets the mild one first.
pub(super) const CAUGHT: [Signal; 6] =
    [Signal::CONT, Signal::USR1, Signal::USR2, Signal::HUP, Signal::INT, Signal::TERM];

/// Signals caught for this process's whole life. Create once, before anything else.
///
/// Caught are CONT, USR1, USR2, HUP, INT and TERM; from then on none of them ends this process.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(i32, SignalStream)>,
    received: Vec<i32>,
    /// How many of `received` were handed out.
    handed_out: usize,
}

impl Signals {
    /// Starts to catch; needs a tokio runtime.
    pub fn install() -> io::Result<Self> {
        let stream = |caught: Signal| {
            let number = caught.as_raw();
            Ok((number, signal(SignalKind::from_raw(number))?))
        };
        let streams = CAUGHT.into_iter().map(stream).collect::<io::Result<_>>()?;
        Ok(Self { streams, received: Vec::new(), handed_out: 0 })
    }

    /// The next signal, handed out once each; several of one kind that arrive at once count as one.
    ///
    /// Cancel-safe: a signal is lost to no dropped future.
    pub async fn next(&mut self) -> i32 {
        if self.handed_out == self.received.len() {
            poll_fn(|context| self.poll(context)).await;
        }
        let number = self.received[self.handed_out];
        self.handed_out += 1;
        number
    }

    /// All signals so far, whether handed out or not, without waiting.
    ///
    /// They reach us through the runtime, so await something after a signal to see it here.
    pub fn received(&mut self) -> &[i32] {
        while self.poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
        &self.received
    }

    /// Hands out all that were not, after giving the runtime the chance to bring in the last ones.
    pub(super) async fn drain(&mut self) -> Vec<i32> {
        tokio::task::yield_now().await;
        let handed_out = self.handed_out;
        self.handed_out = self.received().len();
        self.received[handed_out..].to_vec()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for (number, stream) in &mut self.streams {
            if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                self.received.push(*number);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}
