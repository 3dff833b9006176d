//! The tables of Punctual as SeaORM entities, and the words their columns may hold.
//!
//! No queries live here: what a row *is* belongs to this crate, what is done with it to `worker`.
//!
//! ```
//! use entity::{Status, publication};
//! use sea_orm::{ColumnTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter};
//!
//! async fn in_doubt(db: &sea_orm::DatabaseConnection) -> Result<u64, DbErr> {
//!     let unconfirmed = publication::Column::Status.eq(Status::Unconfirmed);
//!     publication::Entity::find().filter(unconfirmed).count(db).await
//! }
//! ```

pub mod asset;
pub mod attempt;
pub mod channel;
pub mod checkpoint;
pub mod event;
pub mod job;
pub mod post;
pub mod processing_lock;
pub mod publication;
pub mod retired_key;
pub mod worker;

mod words;

pub use words::{EventKind, Outcome, Phase, Status};
