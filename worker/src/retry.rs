//! Contention is normal where many workers write: it is retried, and nothing else is (LOCK-9).

use std::future::Future;
use std::time::Duration;

use rand::Rng;
use sea_orm::{DbErr, RuntimeErr};

const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Runs `write` until it succeeds or fails with something other than contention: at most five
/// tries, pausing from 50 ms, doubling, with jitter.
pub(crate) async fn on_contention<T, F, Fut>(mut write: F) -> Result<T, DbErr>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, DbErr>>,
{
    let mut tries = 1;
    loop {
        match write().await {
            Err(error) if tries < TRIES && is_contention(&error) => {
                tokio::time::sleep(pause_after(tries)).await;
                tries += 1;
            }
            done => return done,
        }
    }
}

/// The pause after the `tries`-th try, somewhere between half and all of 50 ms × 2^(tries − 1).
fn pause_after(tries: u32) -> Duration {
    (FIRST_PAUSE * 2u32.pow(tries - 1)).mul_f64(rand::rng().random_range(0.5..=1.0))
}

/// Whether the database only says that others were faster.
pub(crate) fn is_contention(error: &DbErr) -> bool {
    match database_code(error).as_deref() {
        // PostgreSQL: serialization failure, deadlock, lock not available.
        Some("40001" | "40P01" | "55P03") => true,
        // SQLite: the low byte of BUSY and LOCKED and of all their extended forms.
        Some(code) => {
            code.len() < 5 && code.parse::<u32>().is_ok_and(|c| matches!(c & 0xff, 5 | 6))
        }
        None => false,
    }
}

/// Whether the database judged the statement itself (a constraint, a bad value), so that the
/// connection is fine and other statements may well succeed.
pub(crate) fn is_refusal(error: &DbErr) -> bool {
    // Class 57 is the server going away, class 08 the connection, class 53 a lack of resources.
    database_code(error).is_some_and(|code| {
        !is_contention(error)
            && !["57", "08", "53"]
                .iter()
                .any(|class| code.starts_with(class))
    })
}

fn database_code(error: &DbErr) -> Option<String> {
    let (DbErr::Exec(inner) | DbErr::Query(inner) | DbErr::Conn(inner)) = error else {
        return None;
    };
    let RuntimeErr::SqlxError(inner) = inner else {
        return None;
    };
    inner
        .as_database_error()?
        .code()
        .map(|code| code.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOCK-9: from 50 ms, doubling, with jitter.
    #[test]
    fn the_pause_doubles_from_50_ms_with_jitter() {
        for (tries, full_ms) in [(1, 50), (2, 100), (3, 200), (4, 400)] {
            let full = Duration::from_millis(full_ms);
            for _ in 0..100 {
                let pause = pause_after(tries);
                assert!(
                    pause >= full / 2 && pause <= full,
                    "{pause:?} after try {tries}"
                );
            }
        }
    }

    /// LOCK-9: other errors surface at once.
    #[tokio::test]
    async fn what_is_not_contention_is_tried_once() {
        let mut tries = 0;
        let result: Result<(), DbErr> = on_contention(|| {
            tries += 1;
            async { Err(DbErr::Custom("no".to_owned())) }
        })
        .await;
        assert!(result.is_err());
        assert_eq!(tries, 1);
    }
}
