//! Where the process is in its life, and how everything else learns of it.

use tokio::sync::watch;

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Everything is served.
    Serving,
    /// Everything is served, but readiness says no, so that load balancers look elsewhere.
    Leaving,
    /// No new connections; idle ones close; requests in flight end.
    Closing,
}

/// Announces phases.
#[derive(Debug)]
pub(crate) struct PhaseSender(watch::Sender<Phase>);

/// Learns of phases.
#[derive(Clone, Debug)]
pub(crate) struct PhaseWatch(watch::Receiver<Phase>);

/// A process that serves, and those who want to know when it stops.
pub(crate) fn phases() -> (PhaseSender, PhaseWatch) {
    let (sender, receiver) = watch::channel(Phase::Serving);
    (PhaseSender(sender), PhaseWatch(receiver))
}

impl PhaseSender {
    /// Enters a phase; there is no way back.
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|current| {
            let later = phase > *current;
            *current = phase.max(*current);
            later
        });
    }
}

impl PhaseWatch {
    /// The phase now.
    pub(crate) fn now(&self) -> Phase {
        *self.0.borrow()
    }

    /// Waits until connections have to close. Also ends when the sender is gone.
    pub(crate) async fn closing(&mut self) {
        // An error means that the sender is gone, and with it the process.
        let _ = self.0.wait_for(|phase| *phase == Phase::Closing).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_is_no_way_back() {
        let (sender, mut watch) = phases();
        assert_eq!(watch.now(), Phase::Serving);
        sender.enter(Phase::Closing);
        sender.enter(Phase::Leaving);
        assert_eq!(watch.now(), Phase::Closing);
        watch.closing().await;
    }
}
