use std::fmt;
use std::time::Duration;

/// What a channel can promise when the outcome of a commit is unknown.
///
/// ```
/// use std::time::Duration;
///
/// use api_client::Guarantee;
///
/// let for_a_day = Guarantee::Exact { window: Some(Duration::from_secs(86_400)) };
/// assert_eq!(for_a_day.to_string(), "exact for 86400 s");
/// assert_eq!(Guarantee::AtMostOnce.to_string(), "at most once");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Repeating the same commit is harmless.
    Exact {
        /// For how long after the first commit; `None` is for ever.
        window: Option<Duration>,
    },
    /// The platform can be asked by our own identifier whether it has the post.
    Reconcilable,
    /// Neither: an unknown outcome is settled by a person, or by an unambiguous find.
    AtMostOnce,
}

impl Guarantee {
    /// Repeating is harmless for ever.
    pub const EXACT: Guarantee = Guarantee::Exact { window: None };

    /// A stable short name.
    pub fn kind(&self) -> &'static str {
        match self {
            Guarantee::Exact { .. } => "exact",
            Guarantee::Reconcilable => "reconcilable",
            Guarantee::AtMostOnce => "at_most_once",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guarantee::Exact {
                window: Some(window),
            } => {
                write!(f, "exact for {} s", window.as_secs())
            }
            other => f.write_str(&other.kind().replace('_', " ")),
        }
    }
}
