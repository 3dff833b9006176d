//! Media: stored once, whole, under its hash.

use super::*;
use chrono::TimeDelta;
use futures::TryStreamExt;
use std::error::Error;
use std::fs;
use tempfile::TempDir;

type TestResult = Result<(), Box<dyn Error>>;

/// More than one part, and not a whole number of them.
const LARGE: usize = (11 << 20) + 17;

struct Fixture {
    folder: TempDir,
    media: Media,
}

impl Fixture {
    fn new() -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let media = Media::in_folder(&folder.path().join("data"));
        Ok(Self { folder, media })
    }

    fn file(&self, content: &[u8]) -> std::io::Result<PathBuf> {
        let path = self.folder.path().join("picture.png");
        fs::write(&path, content)?;
        Ok(path)
    }

    /// Every file in the media folder, by path.
    fn files(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.media.root.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    files.push(path)
                }
            }
        }
        files
    }

    async fn listed(&self) -> Result<Vec<ListedFile>, MediaError> {
        self.media.list()?.try_collect().await
    }
}

#[tokio::test]
async fn a_stored_file_is_found_under_its_hash_and_read_back() -> TestResult {
    let fixture = Fixture::new()?;
    let stored = fixture.media.put_file(&fixture.file(b"abc")?, 3).await?;
    assert_eq!(
        stored.sha256.to_string(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(stored.byte_len, 3);
    let hex = stored.sha256.to_string();
    assert_eq!(
        fixture.files(),
        [fixture.media.root.join(&hex[..2]).join(&hex[2..])]
    );

    let pieces: Vec<Bytes> = fixture
        .media
        .open(stored.sha256)
        .await?
        .try_collect()
        .await?;
    assert_eq!(pieces.concat(), b"abc");
    Ok(())
}

#[tokio::test]
async fn a_file_of_many_parts_is_stored_whole_and_read_in_small_pieces() -> TestResult {
    let fixture = Fixture::new()?;
    let content: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let stored = fixture
        .media
        .put_file(&fixture.file(&content)?, LARGE as u64)
        .await?;
    assert_eq!(stored.byte_len, LARGE as u64);

    let pieces: Vec<Bytes> = fixture
        .media
        .open(stored.sha256)
        .await?
        .try_collect()
        .await?;
    assert!(pieces.iter().all(|piece| piece.len() <= 1 << 20));
    assert!(pieces.concat() == content);
    Ok(())
}

#[tokio::test]
async fn an_empty_file_is_stored_too() -> TestResult {
    let fixture = Fixture::new()?;
    let stored = fixture.media.put_file(&fixture.file(b"")?, 10).await?;
    assert_eq!(stored.byte_len, 0);
    let pieces: Vec<Bytes> = fixture
        .media
        .open(stored.sha256)
        .await?
        .try_collect()
        .await?;
    assert!(pieces.concat().is_empty());
    Ok(())
}

#[tokio::test]
async fn the_same_content_twice_is_one_object_and_young_again() -> TestResult {
    let fixture = Fixture::new()?;
    let path = fixture.file(b"abc")?;
    let stored = fixture.media.put_file(&path, 10).await?;
    let at = fixture.files().remove(0);
    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    fs::File::options()
        .write(true)
        .open(&at)?
        .set_modified(yesterday)?;

    let old = fixture.listed().await?;
    assert_eq!(fixture.media.put_file(&path, 10).await?, stored);
    let young = fixture.listed().await?;
    assert_eq!((old.len(), young.len(), fixture.files().len()), (1, 1, 1));
    assert!(young[0].stored_at - old[0].stored_at > TimeDelta::hours(23));
    Ok(())
}

/// A crash of the machine or a failing disk may have damaged what is stored.
#[tokio::test]
async fn storing_again_repairs_a_damaged_object() -> TestResult {
    let fixture = Fixture::new()?;
    let path = fixture.file(b"abc")?;
    let stored = fixture.media.put_file(&path, 10).await?;
    fs::write(&fixture.files()[0], b"")?;
    fixture.media.put_file(&path, 10).await?;
    let pieces: Vec<Bytes> = fixture
        .media
        .open(stored.sha256)
        .await?
        .try_collect()
        .await?;
    assert_eq!(pieces.concat(), b"abc");
    Ok(())
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused_before_anything_is_created() -> TestResult {
    let fixture = Fixture::new()?;
    let error = fixture
        .media
        .put_file(&fixture.file(b"abcd")?, 3)
        .await
        .err()
        .ok_or("stored")?;
    assert!(
        error
            .to_string()
            .ends_with("is larger than max_file_size = 3 B (it has 4 bytes)"),
        "{error}"
    );
    assert!(!fixture.folder.path().join("data").exists());
    Ok(())
}

#[tokio::test]
async fn what_is_no_readable_file_is_refused_by_name() -> TestResult {
    let fixture = Fixture::new()?;
    let missing = fixture.folder.path().join("missing.png");
    let error = fixture
        .media
        .put_file(&missing, 3)
        .await
        .err()
        .ok_or("stored")?;
    assert!(error.to_string().contains("missing.png"), "{error}");
    let error = fixture
        .media
        .put_file(fixture.folder.path(), 3)
        .await
        .err()
        .ok_or("stored")?;
    assert!(matches!(error, MediaError::NotAFile { .. }), "{error}");
    assert!(!fixture.folder.path().join("data").exists());
    Ok(())
}

#[tokio::test]
async fn a_copy_that_fails_leaves_no_file_behind() -> TestResult {
    let fixture = Fixture::new()?;
    // A file where the address's folder should be: the move into place fails.
    fs::create_dir_all(&fixture.media.root)?;
    fs::write(fixture.media.root.join("ba"), b"in the way")?;
    let result = fixture.media.put_file(&fixture.file(b"abc")?, 10).await;
    assert!(matches!(result, Err(MediaError::Storage(_))), "{result:?}");
    assert_eq!(fixture.files(), [fixture.media.root.join("ba")]);
    Ok(())
}

/// Files of the kernel say that they are empty and then are not, as a growing file does.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_grows_past_the_limit_is_refused_and_leaves_nothing_behind() -> TestResult {
    let fixture = Fixture::new()?;
    let result = fixture
        .media
        .put_file(Path::new("/proc/self/status"), 10)
        .await;
    assert!(
        matches!(result, Err(MediaError::TooLarge { .. })),
        "{result:?}"
    );
    assert_eq!(fixture.files(), Vec::<PathBuf>::new());
    Ok(())
}

/// Commands that only read create nothing.
#[tokio::test]
async fn reading_from_a_storage_that_was_never_used_creates_nothing() -> TestResult {
    let fixture = Fixture::new()?;
    let sha256 = ContentHash::from([7; 32]);
    assert!(!fixture.media.exists(sha256).await?);
    assert!(!fixture.media.delete(sha256).await?);
    assert!(fixture.listed().await?.is_empty());
    assert!(matches!(
        fixture.media.open(sha256).await,
        Err(MediaError::Missing { .. })
    ));
    assert_eq!(fixture.media.sweep_incoming(Utc::now()).await?, 0);
    assert!(!fixture.folder.path().join("data").exists());
    Ok(())
}

/// RECOVER-4: media nobody refers to is deleted, but not what was stored again meanwhile.
#[tokio::test]
async fn only_what_is_old_enough_is_deleted() -> TestResult {
    let fixture = Fixture::new()?;
    let stored = fixture.media.put_file(&fixture.file(b"abc")?, 10).await?;
    let before = Utc::now() - TimeDelta::hours(1);
    assert!(
        !fixture
            .media
            .delete_if_stored_before(stored.sha256, before)
            .await?
    );
    assert!(fixture.media.exists(stored.sha256).await?);
    let after = Utc::now() + TimeDelta::hours(1);
    assert!(
        fixture
            .media
            .delete_if_stored_before(stored.sha256, after)
            .await?
    );
    assert!(!fixture.media.exists(stored.sha256).await?);
    assert!(!fixture.media.delete(stored.sha256).await?);
    Ok(())
}

/// RECOVER-4: what a killed process left on its way in is no stored content, and is swept.
#[tokio::test]
async fn unfinished_copies_are_not_listed_and_are_swept_when_old() -> TestResult {
    let fixture = Fixture::new()?;
    fixture.media.put_file(&fixture.file(b"abc")?, 10).await?;
    let left = fixture.media.root.join("incoming").join("0b9c#1");
    fs::write(&left, b"half")?;
    fs::write(fixture.media.root.join("note.txt"), b"not ours")?;
    assert_eq!(fixture.listed().await?.len(), 1);
    assert_eq!(
        fixture
            .media
            .sweep_incoming(Utc::now() - TimeDelta::hours(1))
            .await?,
        0
    );
    assert_eq!(
        fixture
            .media
            .sweep_incoming(Utc::now() + TimeDelta::hours(1))
            .await?,
        1
    );
    assert!(!left.exists());
    Ok(())
}

#[test]
fn only_lower_case_hex_digits_make_a_hash() {
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        hex.parse::<ContentHash>()
            .map(|hash| hash.to_string())
            .as_deref(),
        Ok(hex)
    );
    for bad in [
        "",
        &hex[1..],
        &hex.to_uppercase(),
        &format!("../{}", &hex[3..]),
    ] {
        assert!(bad.parse::<ContentHash>().is_err(), "{bad}");
    }
}

#[test]
fn a_media_type_is_guessed_by_the_extension() {
    assert_eq!(guess_media_type("a.PNG"), "image/png");
    assert_eq!(guess_media_type("clip.mp4"), "video/mp4");
    assert_eq!(guess_media_type("unknown"), "application/octet-stream");
}
