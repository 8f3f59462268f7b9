//! A cgroup, as its files show it.
#![allow(clippy::panic, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use crate::place;
use std::fs;
use std::path::{Path, PathBuf};

/// A cgroup that was there when it was looked for.
#[derive(Clone, Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// The folder that holds the cgroups of all runs, and is gone when there is none.
    pub fn folder() -> PathBuf {
        Path::new(place::CGROUP).join("act")
    }

    /// That of the run whose supervisor has this process id.
    #[track_caller]
    pub fn of(supervisor: u32) -> Self {
        let prefix = format!("act-{supervisor}-");
        let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
        let mut found = Self::all().into_iter().filter(named);
        match (found.next(), found.next()) {
            (Some(one), None) => Self(one),
            (None, _) => panic!("no cgroup {prefix}* in {}", Self::folder().display()),
            (Some(_), Some(_)) => panic!("more than one cgroup {prefix}* in {}", Self::folder().display()),
        }
    }

    /// The cgroups of all runs.
    pub fn all() -> Vec<PathBuf> {
        // Without a run there is no folder.
        let entries = fs::read_dir(Self::folder()).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.path()).collect()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it has a file.
    pub fn has(&self, file: &str) -> bool {
        self.0.join(file).exists()
    }

    /// The content of one of its files, without the line break at the end.
    #[track_caller]
    pub fn read(&self, file: &str) -> String {
        let path = self.0.join(file);
        match fs::read_to_string(&path) {
            Ok(text) => text.trim_end().to_owned(),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }

    /// A number from a file of names and numbers, such as `cpu.stat`.
    #[track_caller]
    pub fn count(&self, file: &str, name: &str) -> u64 {
        let text = self.read(file);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("{file} has no `{name}`:\n{text}"))
    }

    /// Write one of its files.
    #[track_caller]
    pub fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        if let Err(error) = fs::write(&path, text) {
            panic!("{} = {text}: {error}", path.display());
        }
    }
}
