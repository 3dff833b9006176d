//! Long work in short transactions (LOCK-9: 500 rows or 100 ms).

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// The most rows one transaction takes.
const MOST_ROWS: u64 = 500;
/// Where to start: rows with long histories are slow to delete.
const FIRST_ROWS: u64 = 100;
/// The longest a transaction should take.
const LONGEST: Duration = Duration::from_millis(100);

/// Hands out the sizes of pages until one was not full, or `stop` is cancelled.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    stop: &'a CancellationToken,
    rows: u64,
    /// When the page under way began, and how many rows it found.
    page: Option<(Instant, u64)>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(stop: &'a CancellationToken) -> Self {
        Self {
            stop,
            rows: FIRST_ROWS,
            page: None,
        }
    }

    /// How many rows the next page may take; none when there is no more to do.
    pub(super) async fn next(&mut self) -> Option<u64> {
        if let Some((began, found)) = self.page {
            if found < self.rows {
                return None;
            }
            let took = began.elapsed();
            self.rows = next_size(self.rows, took);
            // As much time for others: on SQLite they wait for the one writer's place.
            tokio::time::sleep(took.min(LONGEST)).await;
        }
        self.page = Some((Instant::now(), 0));
        (!self.stop.is_cancelled()).then_some(self.rows)
    }

    /// Says how many rows the page found.
    pub(super) fn found(&mut self, rows: u64) {
        if let Some((_, found)) = &mut self.page {
            *found = rows;
        }
    }
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
    async fn pages_end_with_the_first_that_is_not_full_or_when_stopped() {
        let (stop, mut left, mut sizes) = (CancellationToken::new(), 250, Vec::new());
        let mut pages = Pages::new(&stop);
        while let Some(rows) = pages.next().await {
            sizes.push(rows);
            let found = rows.min(left);
            left -= found;
            pages.found(found);
        }
        assert_eq!((left, sizes), (0, vec![100, 200]));

        let mut pages = Pages::new(&stop);
        assert_eq!(pages.next().await, Some(100));
        pages.found(100);
        stop.cancel();
        assert_eq!(pages.next().await, None);
    }
}
