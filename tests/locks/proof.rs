//! LOCK-5: a claim is a proof, so there is one of it.

use worker::locks::{Claim, CommitPermit, Settlement};

/// Implemented once for every type and once more for those that can be copied: naming it for a
/// type that is `Clone` is ambiguous and does not compile.
trait NotClone<Again> {
    const HOLDS: bool = true;
}
impl<T> NotClone<()> for T {}
impl<T: Clone> NotClone<u8> for T {}

/// LOCK-5: this file does not compile if one of them becomes `Clone`. That settling consumes the
/// claim, and that its fields are private, is shown in the documentation of `Claim`.
#[test]
fn what_proves_a_lock_cannot_be_copied() {
    const { assert!(<Claim as NotClone<_>>::HOLDS) };
    const { assert!(<CommitPermit as NotClone<_>>::HOLDS) };
    const { assert!(<Settlement as NotClone<_>>::HOLDS) };
}
