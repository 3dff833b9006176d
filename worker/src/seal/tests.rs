//! CHAN-4: credentials are sealed at rest and never shown.

use super::*;
use secrecy::ExposeSecret;
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Barrier};

type TestResult = Result<(), Box<dyn Error>>;

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn fresh() -> Result<Sealer, KeyError> {
    Ok(Sealer::new(Key::generate()?, Vec::new()))
}

/// CHAN-4
#[test]
fn what_was_sealed_for_a_channel_is_opened_for_it() -> TestResult {
    let (sealer, channel) = (fresh()?, Uuid::from_u128(1));
    let sealed = sealer.seal(channel, b"token")?;
    assert!(!sealed.windows(5).any(|window| window == b"token"));
    assert_eq!(sealer.open(channel, &sealed)?.expose_secret(), b"token");
    assert_ne!(
        sealer.seal(channel, b"token")?,
        sealed,
        "nonces are never repeated"
    );
    Ok(())
}

/// CHAN-4
#[test]
fn a_sealed_value_cannot_be_moved_to_another_channel() -> TestResult {
    let sealer = fresh()?;
    let sealed = sealer.seal(Uuid::from_u128(1), b"token")?;
    let moved = sealer.open(Uuid::from_u128(2), &sealed);
    assert_eq!(moved.err(), Some(OpenError::Tampered));
    Ok(())
}

/// CHAN-4
#[test]
fn a_changed_or_cut_value_is_never_opened() -> TestResult {
    let (sealer, channel) = (fresh()?, Uuid::from_u128(1));
    let sealed = sealer.seal(channel, b"token")?;
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(sealer.open(channel, &changed).is_err(), "byte {at}");
        assert!(sealer.open(channel, &sealed[..at]).is_err(), "cut at {at}");
    }
    Ok(())
}

/// CHAN-4
#[test]
fn a_wrong_key_is_named_as_such() -> TestResult {
    let (ours, theirs, channel) = (fresh()?, fresh()?, Uuid::from_u128(1));
    let error = ours
        .open(channel, &theirs.seal(channel, b"token")?)
        .err()
        .ok_or("opened")?;
    assert_eq!(
        error.to_string(),
        format!(
            "sealed with another key (id {}); this one is {}",
            theirs.key_id(),
            ours.key_id()
        )
    );
    Ok(())
}

#[test]
fn a_key_is_read_from_base64_and_hex_alike() -> TestResult {
    let hex = Key::parse(HEX).ok_or("hex")?;
    assert_eq!(Key::parse(BASE64).ok_or("base64")?.id(), hex.id());
    assert_eq!(
        Key::parse(BASE64.trim_end_matches('='))
            .ok_or("unpadded")?
            .id(),
        hex.id()
    );
    for bad in ["", "AAEC", &HEX[2..], "not a key", &format!("{HEX}00")] {
        assert!(Key::parse(bad).is_none(), "{bad}");
    }
    Ok(())
}

/// CHAN-4: never logged, never shown.
#[test]
fn a_key_never_appears_in_debug_or_errors() -> TestResult {
    let sealer = Sealer::load(Some(HEX), Path::new("unused"))?.ok_or("no key")?;
    assert_eq!(
        format!("{sealer:?}"),
        "Sealer { current: Key(630dcd2966c43366), older: [] }"
    );
    let error = Sealer::load(Some(&HEX[1..]), Path::new("unused"))
        .err()
        .ok_or("accepted")?;
    assert_eq!(
        error.to_string(),
        "PUNCTUAL_KEY does not hold a sealing key: it takes 32 bytes as base64 or hex"
    );
    assert!(!format!("{error:?}").contains(&HEX[10..20]));
    Ok(())
}

/// Commands that only read create nothing.
#[test]
fn looking_for_a_key_creates_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    assert!(Sealer::load(None, &data_dir)?.is_none());
    assert!(!data_dir.exists());
    Ok(())
}

/// CHAN-4: a 0600 key file made on first start.
#[test]
fn the_first_start_makes_a_key_file_only_its_owner_can_read() -> TestResult {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("deep").join("data");
    let sealer = Sealer::load_or_create(None, &data_dir)?;
    assert_eq!(
        fs::metadata(data_dir.join("key"))?.permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(fs::metadata(&data_dir)?.permissions().mode() & 0o777, 0o700);
    assert_eq!(
        Sealer::load_or_create(None, &data_dir)?.key_id(),
        sealer.key_id()
    );
    Ok(())
}

#[test]
fn a_key_in_the_environment_needs_no_file() -> TestResult {
    let folder = tempfile::tempdir()?;
    Sealer::load_or_create(Some(HEX), folder.path())?;
    assert_eq!(fs::read_dir(folder.path())?.count(), 0);
    Ok(())
}

/// CHAN-4
#[test]
fn a_key_file_that_others_can_read_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    Sealer::load_or_create(None, folder.path())?;
    let path = folder.path().join("key");
    for mode in [0o640, 0o604, 0o660] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        let error = Sealer::load(None, folder.path()).err().ok_or("accepted")?;
        assert!(
            error.to_string().contains(&format!("mode {mode:04o}")),
            "{error}"
        );
    }
    Ok(())
}

/// CHAN-4: starting many processes at once makes one key.
#[test]
fn everyone_who_starts_at_once_ends_up_with_the_same_key() -> TestResult {
    for _ in 0..20 {
        let folder = tempfile::tempdir()?;
        let data_dir = folder.path().join("data");
        let barrier = Arc::new(Barrier::new(8));
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let (barrier, data_dir) = (Arc::clone(&barrier), data_dir.clone());
                std::thread::spawn(move || {
                    barrier.wait();
                    Sealer::load_or_create(None, &data_dir).map(|sealer| sealer.key_id())
                })
            })
            .collect();
        let mut ids = Vec::new();
        for start in starts {
            ids.push(start.join().map_err(|_| "panicked")??);
        }
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(
            fs::read_dir(&data_dir)?.count(),
            1,
            "nothing but the key is left"
        );
    }
    Ok(())
}

/// `key rotate`: the old key keeps opening what it sealed.
#[test]
fn a_rotated_key_seals_anew_and_opens_the_old() -> TestResult {
    let folder = tempfile::tempdir()?;
    let channel = Uuid::from_u128(1);
    let before = Sealer::load_or_create(None, folder.path())?;
    let sealed = before.seal(channel, b"token")?;

    let after = Sealer::rotate_key_file(folder.path())?;
    assert_ne!(after.key_id(), before.key_id());
    assert!(!after.is_current(&sealed));
    let opened = after.open(channel, &sealed)?;
    let sealed_again = after.seal(channel, opened.expose_secret())?;
    assert!(after.is_current(&sealed_again));

    let restarted = Sealer::load(None, folder.path())?.ok_or("no key")?;
    assert_eq!(restarted.key_id(), after.key_id());
    assert_eq!(
        restarted.open(channel, &sealed_again)?.expose_secret(),
        b"token"
    );
    assert_eq!(
        fs::metadata(folder.path().join("key"))?
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    Ok(())
}

/// `key rotate`: rotations at the same time lose no key.
#[test]
fn rotations_at_the_same_time_keep_every_key() -> TestResult {
    let folder = tempfile::tempdir()?;
    let channel = Uuid::from_u128(1);
    let rotations: Vec<_> = (0..8)
        .map(|_| {
            let data_dir = folder.path().to_path_buf();
            std::thread::spawn(move || Sealer::rotate_key_file(&data_dir))
        })
        .collect();
    let mut sealed = Vec::new();
    for rotation in rotations {
        sealed.push(
            rotation
                .join()
                .map_err(|_| "panicked")??
                .seal(channel, b"token")?,
        );
    }
    let sealer = Sealer::load(None, folder.path())?.ok_or("no key")?;
    for sealed in sealed {
        assert_eq!(sealer.open(channel, &sealed)?.expose_secret(), b"token");
    }
    Ok(())
}
