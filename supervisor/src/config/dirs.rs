//! Where files of ours live (XDG Base Directory Specification 0.8).

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

fn absolute(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute())
}

/// The user's home directory.
pub fn home() -> Option<PathBuf> {
    absolute("HOME")
}

fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    absolute(variable).or_else(|| home().map(|h| h.join(below_home))).map(|p| p.join("act"))
}

/// `$XDG_CONFIG_HOME/act`
pub fn config() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config")
}

/// `$XDG_CACHE_HOME/act`
pub fn cache() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// `$XDG_STATE_HOME/act`
pub fn state() -> Option<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// `$XDG_DATA_HOME/act`
pub fn data() -> Option<PathBuf> {
    xdg("XDG_DATA_HOME", ".local/share")
}

/// A variable of the environment as text, if it is UTF-8.
pub fn variable(name: &str) -> Option<String> {
    env::var_os(name).map(OsString::into_string).and_then(Result::ok)
}
