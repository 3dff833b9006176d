use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `prepare` made and `commit` will make public.
///
/// ```
/// use api_client::Prepared;
/// use serde_json::json;
///
/// let prepared = Prepared::new(json!({ "itemid": 7 }));
/// #[derive(serde::Deserialize)]
/// struct Item {
///     itemid: u64,
/// }
/// assert_eq!(prepared.read::<Item>().map(|item| item.itemid), Some(7));
/// assert!(Prepared::nothing().read::<Item>().is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prepared(Value);

impl Prepared {
    /// There was nothing to prepare.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// A prepared thing in the publisher's own words.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// The publisher's own words.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Reads it back as the type it was made from; `None` if it is something else.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        // Most have nothing, and an error would be put into words that nobody reads.
        (!self.0.is_null())
            .then(|| T::deserialize(&self.0).ok())
            .flatten()
    }
}

/// Proof that the platform accepted a post.
///
/// Both fields may be empty: a platform can say "you have published this already" without saying
/// where. [`reconcile`](super::Publisher::reconcile) may then find them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The platform's id of the post.
    pub remote_id: Option<String>,
    /// Where people can see it.
    pub remote_url: Option<String>,
}

impl Receipt {
    /// Accepted, and the platform did not say under which id.
    pub fn without_id() -> Self {
        Self::default()
    }
}

/// What a look at the platform told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The post is there.
    Found(Receipt),
    /// The platform was asked by our own identifier and does not have it.
    Absent,
    /// Nobody can say; a person has to look.
    CannotTell,
}
