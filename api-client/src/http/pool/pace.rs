use std::time::Duration;

/// How long a host at ease takes for an answer at most, in times of its quickest one.
const EASE: u32 = 2;
/// A host that takes longer than this is slow, and not counted as strained: what a connection costs
/// matters only beside a quick answer.
const QUICK: Duration = Duration::from_millis(50);
/// How much of the usual time is made up by the latest answer: one part in so many.
const LATEST: u32 = 8;

/// How a host bears what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strain {
    /// It has not answered yet.
    Unknown,
    /// It takes its time, or is as quick as ever.
    AtEase,
    /// It is quick, but takes longer the more it is asked: what is sent to it has to wait there.
    Strained,
}

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

    pub(super) fn strain(&self) -> Strain {
        match &self.answers {
            None => Strain::Unknown,
            Some(known) if known.usual < QUICK && known.usual > known.quickest * EASE => {
                Strain::Strained
            }
            Some(_) => Strain::AtEase,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answers_ms: impl IntoIterator<Item = u64>) -> Strain {
        let mut pace = Pace::default();
        for took in answers_ms {
            pace.note(Duration::from_millis(took));
        }
        pace.strain()
    }

    #[test]
    fn a_quick_host_is_strained_while_its_answers_take_longer_than_they_did() {
        assert_eq!(after([]), Strain::Unknown);
        assert_eq!(after([20; 50]), Strain::AtEase, "no slower than ever");
        let one_is_late = [5, 5, 15, 5, 5];
        assert_eq!(after(one_is_late), Strain::AtEase, "one says little");
        let queue = || [2].into_iter().chain([9; 50]);
        assert_eq!(after(queue()), Strain::Strained);
        assert_eq!(after(queue().chain([2; 50])), Strain::AtEase, "it is gone");
    }

    /// Its answers vary, and a connection more is nothing beside one of them.
    #[test]
    fn a_slow_host_is_never_strained() {
        assert_eq!(after([80, 900, 300, 700, 200]), Strain::AtEase);
    }
}
