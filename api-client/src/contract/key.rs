use std::fmt;

use uuid::Uuid;

/// The key that tells a platform "this is the same publication again".
///
/// It contains the publication's id verbatim and nothing that changes between attempts.
///
/// ```
/// use api_client::IdempotencyKey;
/// use uuid::Uuid;
///
/// let id = Uuid::now_v7();
/// assert_eq!(IdempotencyKey::of(id).as_str(), format!("pub_{id}"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key of a publication: the same for every attempt, worker and restart.
    pub fn of(publication_id: Uuid) -> Self {
        Self(format!("pub_{publication_id}"))
    }

    /// The key as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_the_publication_id_and_never_changes() {
        let id = Uuid::now_v7();
        assert!(IdempotencyKey::of(id).as_str().contains(&id.to_string()));
        assert_eq!(IdempotencyKey::of(id), IdempotencyKey::of(id));
    }
}
