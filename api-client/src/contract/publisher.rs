use async_trait::async_trait;

use super::{
    AssetSource, Call, Checkpoints, Draft, Guarantee, IdempotencyKey, Look, Prepared, PublishError,
    Receipt, Verdict,
};

/// One channel of one platform.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// What this channel can promise when an outcome is unknown.
    fn guarantee(&self) -> Guarantee;

    /// Whether `prepare` leaves anything on the platform. Where it does not, on any draft, a claim
    /// can be the mark of its commit at no extra write.
    fn prepares_remotely(&self) -> bool;

    /// Whether `reconcile` can ever say more than [`Verdict::CannotTell`].
    fn can_look_up(&self) -> bool;

    /// What a person should know before using the channel, such as missing signatures.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks options and files; sends nothing.
    fn validate(&self, draft: &Draft) -> Result<(), PublishError>;

    /// The repeatable part, such as uploads. Each remote result is remembered as a checkpoint, so
    /// that a repetition goes on where the last one stopped. Never ambiguous in itself: the one
    /// ambiguous error is a replay whose checkpoint is gone.
    async fn prepare(
        &self,
        draft: &Draft,
        checkpoints: &dyn Checkpoints,
        assets: &dyn AssetSource,
        call: &Call,
    ) -> Result<Prepared, PublishError>;

    /// Reads back what `prepare` remembered, without asking the platform: for `reconcile` after a
    /// restart.
    async fn recall(
        &self,
        _draft: &Draft,
        _checkpoints: &dyn Checkpoints,
    ) -> Result<Option<Prepared>, PublishError> {
        Ok(None)
    }

    /// The one irreversible call.
    async fn commit(
        &self,
        draft: &Draft,
        prepared: &Prepared,
        key: &IdempotencyKey,
        call: &Call,
    ) -> Result<Receipt, PublishError>;

    /// Looks for the post; only reads. An error says that the look failed, not that the post is
    /// missing, and is never ambiguous.
    async fn reconcile(
        &self,
        draft: &Draft,
        prepared: Option<&Prepared>,
        key: &IdempotencyKey,
        look: &Look,
        call: &Call,
    ) -> Result<Verdict, PublishError>;

    /// A real call that publishes nothing and says who we are on the platform.
    async fn test(&self, call: &Call) -> Result<String, PublishError>;
}
