use std::time::Duration;

/// How much longer than at its quickest a host at ease takes at most.
const EASE: u32 = 2;
/// How much of the usual time is made up by the latest answer: one part in so many.
const LATEST: u32 = 8;

/// How long it is waited for a connection before one more is opened, where the host answers as quickly
/// as ever: one that takes its time is served by as many connections as there are requests.
pub(super) const AT_EASE: Duration = Duration::from_millis(5);
/// The same where the host takes longer the more it is asked: what is sent to it waits there instead of
/// here, and more connections only give it more to do.
pub(super) const STRAINED: Duration = Duration::from_secs(1);
/// The same where it has not answered yet.
pub(super) const UNKNOWN: Duration = Duration::from_millis(50);

/// How quickly a host answers.
#[derive(Default)]
pub(super) struct Pace {
    answers: Option<Answers>,
}

struct Answers {
    quickest: Duration,
    usual: Duration,
}

impl Pace {
    /// Takes note of how long one answer took.
    pub(super) fn note(&mut self, took: Duration) {
        let known = self.answers.get_or_insert(Answers {
            quickest: took,
            usual: took,
        });
        known.quickest = known.quickest.min(took);
        known.usual = (known.usual * (LATEST - 1) + took) / LATEST;
    }

    /// How long it is worth waiting for a connection to this host that comes free.
    pub(super) fn patience(&self) -> Duration {
        match &self.answers {
            None => UNKNOWN,
            Some(known) if known.usual <= known.quickest * EASE => AT_EASE,
            Some(_) => STRAINED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answers_ms: impl IntoIterator<Item = u64>) -> Duration {
        let mut pace = Pace::default();
        for took in answers_ms {
            pace.note(Duration::from_millis(took));
        }
        pace.patience()
    }

    #[test]
    fn it_is_worth_waiting_for_a_host_whose_answers_take_longer_than_they_did() {
        assert_eq!(after([]), UNKNOWN);
        assert_eq!(after([200; 50]), AT_EASE, "slow, but no slower than ever");
        let one_is_late = [200, 200, 900, 200, 200];
        assert_eq!(after(one_is_late), AT_EASE, "one answer says little");
        let queue = || [2].into_iter().chain([9; 50]);
        assert_eq!(after(queue()), STRAINED);
        assert_eq!(after(queue().chain([2; 50])), AT_EASE, "it is gone");
    }
}
