//! The file on disk: read by many, changed by one at a time, replaced as a whole.

use super::content::Content;
use super::file::{File, Header, Id, Key, MAX_FILE};
use super::passphrase::{self, Ask};
use super::{SecretsError, kernel_key, unlock};
use crate::config::dirs;
use crate::folder;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

const NAME: &str = "secrets.db";
const NEW: &str = ".secrets.db.new";

/// The store of this user.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// The file's path, escaped for messages.
    shown: String,
    /// The key that opened it last, and which store it is for.
    key: Option<(Id, Key)>,
}

/// What came of a change.
#[derive(Debug)]
pub struct Changed<T> {
    /// What the change returned.
    pub value: T,
    /// Whether a passphrase opens the store, so that it outlasts a restart.
    pub has_passphrase: bool,
}

impl Store {
    /// The store in `$XDG_DATA_HOME/act`. Nothing is read or made yet.
    pub fn of_user() -> Result<Self, SecretsError> {
        Ok(Self::at(&dirs::data().ok_or(SecretsError::NoPlace)?))
    }

    /// The store in a folder.
    pub fn at(folder: &Path) -> Self {
        let shown = act_policy::escape(&folder.join(NAME).display().to_string());
        Self { folder: folder.to_owned(), shown, key: None }
    }

    /// Get hold of the key, as long as somebody can be asked for it. Nothing happens where there is no store.
    pub fn unlock(&mut self, ask: &mut dyn Ask) -> Result<(), SecretsError> {
        self.read(ask).map(drop)
    }

    /// What is stored; nothing where there is no store.
    pub fn read(&mut self, ask: &mut dyn Ask) -> Result<Content, SecretsError> {
        match self.load()? {
            Some(file) => self.open(&file, ask),
            None => Ok(Content::default()),
        }
    }

    /// Change what is stored. A store that holds nothing afterwards is removed, with its key.
    pub fn update<T>(
        &mut self,
        ask: &mut dyn Ask,
        change: impl FnOnce(&mut Content) -> T,
    ) -> Result<Changed<T>, SecretsError> {
        loop {
            // People are asked before the lock is taken: others shall not wait for them.
            let before = self.load()?.map(|file| file.header);
            let (made, key) = if let Some(header) = &before {
                (None, self.key(header, ask)?)
            } else {
                let (header, key) = unlock::fresh(ask)?;
                (Some(header), key)
            };
            let folder = folder::make(&self.folder).map_err(SecretsError::Folder)?;
            // Held until `folder` is closed.
            flock(&folder, FlockOperation::LockExclusive).map_err(|e| self.io("lock", e.into()))?;
            let now = self.load()?;
            let id = |header: Option<&Header>| header.map(|header| header.id);
            if id(now.as_ref().map(|file| &file.header)) != id(before.as_ref()) {
                // Somebody was faster: begin again with what is there now.
                if let Some(header) = made {
                    kernel_key::forget(&header.id);
                }
                continue;
            }
            let (mut header, mut content) = match (now, made) {
                (Some(file), _) => (file.header.clone(), self.open(&file, ask)?),
                (None, Some(header)) => (header, Content::default()),
                (None, None) => continue,
            };
            let value = change(&mut content);
            if content.is_empty() {
                self.remove(&folder)?;
                kernel_key::forget(&header.id);
                return Ok(Changed { value, has_passphrase: header.slot.is_some() });
            }
            if header.slot.is_none()
                && let Some(passphrase) = passphrase::from_file()?
            {
                header.slot = Some(passphrase::wrap(&header.id, &key, &passphrase)?);
            }
            self.replace(&folder, &File::seal(&header, &key, &content)?)?;
            self.key = Some((header.id, key));
            return Ok(Changed { value, has_passphrase: header.slot.is_some() });
        }
    }

    fn io(&self, step: &'static str, source: std::io::Error) -> SecretsError {
        SecretsError::Io { path: self.shown.clone(), step, source }
    }

    fn open(&mut self, file: &File, ask: &mut dyn Ask) -> Result<Content, SecretsError> {
        let key = self.key(&file.header, ask)?;
        file.open(&key).ok_or_else(|| SecretsError::Damaged(self.shown.clone()))
    }

    fn key(&mut self, header: &Header, ask: &mut dyn Ask) -> Result<Key, SecretsError> {
        if let Some((id, key)) = &self.key
            && *id == header.id
        {
            return Ok(key.clone());
        }
        let key = unlock::existing(header, &self.shown, ask)?;
        self.key = Some((header.id, key.clone()));
        Ok(key)
    }

    fn load(&self) -> Result<Option<File>, SecretsError> {
        let Some(folder) = folder::open(&self.folder).map_err(SecretsError::Folder)? else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match openat(&folder, NAME, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(SecretsError::NotPrivate(self.shown.clone())),
            Err(e) => return Err(self.io("open", e.into())),
        };
        let stat = fstat(&file).map_err(|e| self.io("fstat", e.into()))?;
        let mine = stat.st_uid == rustix::process::geteuid().as_raw();
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !mine || stat.st_mode & 0o077 != 0 {
            return Err(SecretsError::NotPrivate(self.shown.clone()));
        }
        let mut bytes = Vec::new();
        let read = std::fs::File::from(file).take(MAX_FILE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|e| self.io("read", e))?;
        if bytes.len() > MAX_FILE {
            return Err(SecretsError::Foreign(self.shown.clone()));
        }
        File::parse(&bytes).map(Some).ok_or_else(|| SecretsError::Foreign(self.shown.clone()))
    }

    /// Write beside, then rename: whatever happens in between, the old file or the new one is there, and whole.
    fn replace(&self, folder: &OwnedFd, bytes: &[u8]) -> Result<(), SecretsError> {
        if bytes.len() > MAX_FILE {
            return Err(SecretsError::TooLarge { path: self.shown.clone(), limit: MAX_FILE });
        }
        // What a killed run left behind; nobody else is here, for we hold the lock.
        let _ = unlinkat(folder, NEW, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(folder, NEW, flags, Mode::from_raw_mode(0o600)).map_err(|e| self.io("create", e.into()))?;
        let mut file = std::fs::File::from(file);
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|e| self.io("write", e));
        let renamed =
            written.and_then(|()| renameat(folder, NEW, folder, NAME).map_err(|e| self.io("rename", e.into())));
        if renamed.is_err() {
            let _ = unlinkat(folder, NEW, AtFlags::empty());
        }
        renamed?;
        fsync(folder).map_err(|e| self.io("fsync", e.into()))
    }

    fn remove(&self, folder: &OwnedFd) -> Result<(), SecretsError> {
        match unlinkat(folder, NAME, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(self.io("unlink", e.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::Value;
    use super::super::passphrase::Nobody;
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use zeroize::Zeroizing;

    /// Types the same passphrase again and again.
    struct Human(&'static str, usize);

    impl Ask for Human {
        fn hidden(&mut self, _: &str) -> Result<Option<Zeroizing<String>>, SecretsError> {
            self.1 += 1;
            Ok(Some(Zeroizing::new(self.0.to_owned())))
        }
        fn tell(&mut self, _: &str) {}
    }

    fn set(store: &mut Store, ask: &mut dyn Ask, field: &str) -> Result<Changed<()>, SecretsError> {
        store.update(ask, |content| content.set("demo", "acme", field, Value::new(b"\x61x".to_vec())))
    }

    fn forget(store: &Store) {
        if let Ok(Some(file)) = store.load() {
            kernel_key::forget(&file.header.id);
        }
    }

    #[test]
    fn a_passphrase_outlasts_the_keyring() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, mut human) = (Store::at(folder.path()), Human("open sesame", 0));
        assert!(set(&mut store, &mut human, "a").unwrap().has_passphrase);
        assert!(set(&mut store, &mut human, "b").unwrap().has_passphrase);
        assert_eq!(human.1, 2, "asked twice for a new one, then no more");
        let mode = std::fs::metadata(folder.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // As after a restart.
        forget(&store);
        let again = || Store::at(folder.path());
        assert!(matches!(again().read(&mut Nobody), Err(SecretsError::Locked(_))));
        assert!(matches!(again().read(&mut Human("wrong", 0)), Err(SecretsError::WrongPassphrase { .. })));
        let content = again().read(&mut human).unwrap();
        assert_eq!(content.names().next(), Some(("demo", "acme", vec!["a", "b"])));

        let mut store = again();
        store.update(&mut human, |content| content.remove("demo", None, None)).unwrap();
        assert!(!folder.path().join(NAME).exists());
        assert_eq!(again().read(&mut Nobody).unwrap(), Content::default());
    }

    #[test]
    fn without_a_passphrase_the_kernel_has_the_only_key() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::at(folder.path());
        match set(&mut store, &mut Nobody, "a") {
            Err(SecretsError::NoKeyring(e)) => return println!("skipped: no keyring here: {e}"),
            changed => assert!(!changed.unwrap().has_passphrase),
        }
        assert!(!Store::at(folder.path()).read(&mut Nobody).unwrap().is_empty());
        forget(&store);
        assert!(matches!(Store::at(folder.path()).read(&mut Nobody), Err(SecretsError::KeyGone(_))));
        assert!(matches!(set(&mut Store::at(folder.path()), &mut Nobody, "b"), Err(SecretsError::KeyGone(_))));
        assert!(folder.path().join(NAME).exists());
    }

    #[test]
    fn files_that_are_not_as_they_should_be_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, mut human) = (Store::at(folder.path()), Human("p", 0));
        set(&mut store, &mut human, "a").unwrap();
        let file = folder.path().join(NAME);
        let good = std::fs::read(&file).unwrap();
        let mut changed = good.clone();
        *changed.last_mut().unwrap() ^= 1;
        for (bytes, mode) in [
            (&changed[..], 0o600),
            (&good[..good.len() - 1], 0o600),
            (&good[..20], 0o600),
            (b"", 0o600),
            (b"SQLite format 3\0", 0o600),
            (&vec![0; MAX_FILE + 1], 0o600),
            (&good, 0o640),
        ] {
            std::fs::write(&file, bytes).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = set(&mut Store::at(folder.path()), &mut human, "b").unwrap_err().to_string();
            assert!(error.contains("secrets.db") && error.contains("move it away"), "{error}");
            assert_eq!(std::fs::read(&file).unwrap(), bytes, "{error}");
        }
        std::fs::write(&file, &good).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        set(&mut Store::at(folder.path()), &mut human, "b").unwrap();
        forget(&store);
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/null", &file).unwrap();
        assert!(matches!(Store::at(folder.path()).read(&mut human), Err(SecretsError::NotPrivate(_))));
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        set(&mut Store::at(folder.path()), &mut Human("p", 0), "first").unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = folder.path();
                scope.spawn(move || set(&mut Store::at(path), &mut Human("p", 0), &format!("f{n}")).unwrap());
            }
        });
        let mut store = Store::at(folder.path());
        let content = store.read(&mut Human("p", 0)).unwrap();
        assert_eq!(content.fields("demo", "acme").unwrap().count(), 9);
        forget(&store);
    }
}
