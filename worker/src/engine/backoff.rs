//! How long to wait before the next try; pure but for the jitter, which is handed in.

use std::time::Duration;

/// `base`, doubled for each earlier try, but never more than `max`.
///
/// `tries` counts from 1: the wait after the first try is `base`.
pub(crate) fn doubling(base: Duration, max: Duration, tries: u32) -> Duration {
    let factor = 2u32.saturating_pow(tries.saturating_sub(1).min(31));
    base.saturating_mul(factor).min(max)
}

/// A wait between three quarters and all of `wait`, so that many who failed together do not come
/// back together. `dice` is a number from 0 to 1.
pub(crate) fn jittered(wait: Duration, dice: f64) -> Duration {
    wait.mul_f64(0.75 + 0.25 * dice.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_wait_doubles_up_to_its_limit() {
        let waits: Vec<u64> = (1..=6)
            .map(|tries| doubling(SECOND, SECOND * 10, tries).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_thousand_tries_do_not_overflow() {
        assert_eq!(doubling(SECOND, SECOND * 60, 1_000), SECOND * 60);
        assert_eq!(doubling(Duration::MAX, Duration::MAX, 2), Duration::MAX);
    }

    #[test]
    fn jitter_shortens_by_a_quarter_at_most() {
        assert_eq!(jittered(SECOND * 4, 0.0), SECOND * 3);
        assert_eq!(jittered(SECOND * 4, 1.0), SECOND * 4);
    }
}
