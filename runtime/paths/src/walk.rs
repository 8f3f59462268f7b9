//! The walk, component by component, for paths with links, `..` or a missing part.

use crate::components::{Origin, Pending, join, parent, wants_directory};
use crate::resolve::{Follow, ResolveError, Resolved};
use crate::resolver::Resolver;
use crate::{MAX_LINKS, sys};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

pub(crate) struct Walk<'a> {
    resolver: &'a Resolver,
    root: BorrowedFd<'a>,
    /// Path of the directory that the guest holds; its own `..` stops there.
    fence: Vec<u8>,
    /// The directory reached so far, and its path.
    at: OwnedFd,
    path: Vec<u8>,
    pending: Pending,
    links: u32,
    directory: bool,
    left: Vec<Vec<u8>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        resolver: &'a Resolver,
        root: BorrowedFd<'a>,
        dir: BorrowedFd<'_>,
        base: Vec<u8>,
    ) -> Result<Self, ResolveError> {
        let at = sys::pin(dir, b".").map_err(|errno| ResolveError { errno, reached: base.clone() })?;
        Ok(Self {
            resolver,
            root,
            fence: base.clone(),
            at,
            path: base,
            pending: Pending::default(),
            links: 0,
            directory: false,
            left: Vec::new(),
        })
    }

    pub(crate) fn run(mut self, path: &[u8], follow: Follow) -> Result<Resolved, ResolveError> {
        self.pending.prepend(path, Origin::Guest);
        self.directory = wants_directory(path);
        while let Some(component) = self.pending.next() {
            let name = component.name;
            if name == b".." {
                self.up(component.origin)?;
                continue;
            }
            let last = self.pending.is_empty();
            let pinned = match sys::pin(&self.at, &name) {
                Ok(pinned) => pinned,
                Err(Errno::NOENT) if last => return self.finish(name),
                Err(errno) => return Err(self.fail(errno, &name)),
            };
            match sys::file_type(&pinned) {
                Ok(FileType::Symlink) if !last || self.directory || follow == Follow::Yes => {
                    self.expand(&pinned, &name, last)?;
                }
                Ok(kind) if last && self.directory && kind != FileType::Directory => {
                    return Err(self.fail(Errno::NOTDIR, &name));
                }
                Ok(_) if last => return self.finish(name),
                Ok(FileType::Directory) => {
                    self.path = join(&self.path, &name);
                    self.at = pinned;
                }
                Ok(_) => return Err(self.fail(Errno::NOTDIR, &name)),
                Err(errno) => return Err(self.fail(errno, &name)),
            }
        }
        // The text ended in `.`, `..` or a link to `/`: the place is the directory reached.
        self.finish(b".".to_vec())
    }

    fn up(&mut self, origin: Origin) -> Result<(), ResolveError> {
        if self.path == b"/" {
            return Ok(());
        }
        if origin == Origin::Guest && self.path == self.fence {
            let above = parent(&self.path).to_vec();
            return Err(ResolveError { errno: Errno::PERM, reached: self.pending.reach(&above, b".") });
        }
        let above = sys::pin(&self.at, b"..").map_err(|errno| self.fail(errno, b"."))?;
        // Asked, not computed: the directory may have been renamed since it was entered.
        let path = self.resolver.path_of(above.as_fd()).map_err(|errno| self.fail(errno, b"."))?;
        self.left.push(std::mem::replace(&mut self.path, path));
        self.at = above;
        Ok(())
    }

    fn expand(&mut self, link: &OwnedFd, name: &[u8], last: bool) -> Result<(), ResolveError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(self.fail(Errno::LOOP, name));
        }
        let text = sys::link_text(link).map_err(|errno| self.fail(errno, name))?;
        if text.is_empty() {
            return Err(self.fail(Errno::NOENT, name));
        }
        if text.starts_with(b"/") {
            self.at = sys::pin(self.root, b".").map_err(|errno| self.fail(errno, name))?;
            self.path = b"/".to_vec();
        }
        self.directory |= last && wants_directory(&text);
        self.pending.prepend(&text, Origin::Link);
        Ok(())
    }

    fn finish(self, name: Vec<u8>) -> Result<Resolved, ResolveError> {
        let at = self.resolver.path_of(self.at.as_fd()).map_err(|errno| self.fail(errno, &name))?;
        let path = join(&at, &name);
        Ok(Resolved { parent: self.at, name, path, directory: self.directory, left: self.left })
    }

    fn fail(&self, errno: Errno, name: &[u8]) -> ResolveError {
        ResolveError { errno, reached: self.pending.reach(&self.path, name) }
    }
}
