//! Resolution of a path that an untrusted component gave, below a directory that the host holds.
//!
//! **Purpose.** A check on a path is worth something only if the checked path is the one that the kernel then acts on.
//! [`Resolver::resolve`] turns (held directory, guest path) into a [`Resolved`]: a *pinned* descriptor of the parent
//! directory, one final component, and the absolute host path of the two as the kernel itself tells it. The caller
//! judges the path and acts with `*at(parent, name, … no follow …)`; nothing is looked up twice.
//!
//! **How.** One `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)` (Linux 5.6) where no link and
//! no `..` is on the way; else a walk, one `openat(O_PATH | O_NOFOLLOW)` per component, that expands symbolic links
//! itself (40 at most, as the kernel). The kernel never follows a link for us, so a magic link of `/proc` is only ever
//! its text. `..` is the kernel's: after a link it is the parent of the link's target.
//!
//! **Limits.** 4096 bytes of guest path; no NUL. A `..` in the *guest's* text that would leave the directory it was
//! given is refused, except at `/`, where it stays as in the kernel; a `..` inside a link's text is free, because an
//! absolute link is, too: the policy judges where it leads. Nothing but `O_PATH` descriptors is opened during
//! resolution, so a FIFO or a device is never touched.
//!
//! **Threat model.** The component chooses paths and, where it may write, links. Other host programs may rename and
//! replace things meanwhile: the result is then the old or the new place, never a mix, because the path is read back
//! from the pinned descriptor. What a failed resolution tells about the host is bounded by [`ResolveError::reached`],
//! which the caller judges before it lets the error out.

mod components;
mod resolve;
mod resolver;
mod sys;
mod walk;

pub use resolve::{Follow, ResolveError, Resolved};
pub use resolver::{PathsError, Resolver};

/// Most bytes of a path, as Linux' `PATH_MAX`.
pub const PATH_MAX: usize = 4096;
/// Most symbolic links on the way, as Linux' `MAXSYMLINKS`.
pub const MAX_LINKS: u32 = 40;
