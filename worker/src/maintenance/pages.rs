//! Long work in short transactions (LOCK-9: 500 rows or 100 ms).

use std::time::{Duration, Instant};

use sea_orm::DbErr;
use tokio_util::sync::CancellationToken;

/// The most rows one transaction takes.
const MOST_ROWS: u64 = 500;
/// Where to start: rows with long histories are slow to delete.
const FIRST_ROWS: u64 = 100;
/// The longest a transaction should take.
const LONGEST: Duration = Duration::from_millis(100);

/// Runs `page`, which is told how many rows it may take and answers how many it found, until it
/// finds fewer or `stop` is cancelled.
pub(super) async fn in_pages(
    stop: &CancellationToken,
    mut page: impl AsyncFnMut(u64) -> Result<u64, DbErr>,
) -> Result<(), DbErr> {
    let mut rows = FIRST_ROWS;
    while !stop.is_cancelled() {
        let started = Instant::now();
        if page(rows).await? < rows {
            return Ok(());
        }
        let took = started.elapsed();
        rows = next_size(rows, took);
        // As much time for others: on SQLite they wait for the one writer's place.
        tokio::time::sleep(took.min(LONGEST)).await;
    }
    Ok(())
}

/// Half as many after a slow page, twice as many after a fast one.
fn next_size(rows: u64, took: Duration) -> u64 {
    if took > LONGEST {
        (rows / 2).max(1)
    } else if took < LONGEST / 2 {
        (rows * 2).min(MOST_ROWS)
    } else {
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOCK-9: 500 rows or 100 ms.
    #[test]
    fn pages_shrink_when_slow_and_grow_to_500_when_fast() {
        assert_eq!(next_size(100, Duration::from_millis(101)), 50);
        assert_eq!(next_size(1, Duration::from_secs(9)), 1);
        assert_eq!(next_size(100, Duration::from_millis(70)), 100);
        assert_eq!(next_size(100, Duration::from_millis(10)), 200);
        assert_eq!(next_size(400, Duration::from_millis(10)), 500);
    }

    #[tokio::test]
    async fn pages_end_with_the_first_that_is_not_full_or_when_stopped() -> Result<(), DbErr> {
        let (stop, mut left, mut pages) = (CancellationToken::new(), 250, 0);
        in_pages(&stop, async |rows| {
            let found = rows.min(left);
            (left, pages) = (left - found, pages + 1);
            Ok(found)
        })
        .await?;
        assert_eq!((left, pages), (0, 2));

        let mut pages = 0;
        in_pages(&stop, async |rows| {
            pages += 1;
            stop.cancel();
            Ok(rows)
        })
        .await?;
        assert_eq!(pages, 1);
        Ok(())
    }
}
