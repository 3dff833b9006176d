use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that outlives a panic: what our mutexes guard is whole between any two statements.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
