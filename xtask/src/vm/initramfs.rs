//! Writes the archive that a kernel unpacks as its first file system: cpio in the format `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's sources).

use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive under way.
pub(super) struct Archive<W> {
    out: W,
    /// The number of the last entry.
    inode: u32,
    /// What is in it already.
    names: BTreeSet<PathBuf>,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, inode: 0, names: BTreeSet::new() }
    }

    /// Adds a folder and those above it, unless they are there.
    pub(super) fn folder(&mut self, path: &Path) -> Result<()> {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        for folder in above {
            if folder != Path::new("/") && self.names.insert(folder.to_owned()) {
                self.entry(folder, FOLDER, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, path: &Path, major: u32, minor: u32) -> Result<()> {
        self.within(path)?;
        self.entry(path, CHARACTER_DEVICE, (major, minor), &[])
    }

    /// Adds a file of this machine under a path, unless it is there.
    pub(super) fn file(&mut self, path: &Path, from: &Path) -> Result<()> {
        self.within(path)?;
        if self.names.insert(path.to_owned()) {
            let bytes = std::fs::read(from).with_context(|| format!("read {}", from.display()))?;
            self.entry(path, PROGRAM, (0, 0), &bytes)?;
        }
        Ok(())
    }

    /// Adds a program, and the libraries and the loader that it needs, at the paths that they have here.
    pub(super) fn program(&mut self, path: &Path, from: &Path) -> Result<()> {
        self.file(path, from)?;
        for library in libraries(from)? {
            self.file(&library, &library)?;
        }
        Ok(())
    }

    /// Ends the archive.
    pub(super) fn finish(mut self) -> Result<W> {
        self.entry(Path::new("/TRAILER!!!"), 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn within(&mut self, path: &Path) -> Result<()> {
        path.parent().map_or(Ok(()), |folder| self.folder(folder))
    }

    fn entry(&mut self, path: &Path, mode: u32, device: (u32, u32), content: &[u8]) -> Result<()> {
        let name = path.strip_prefix("/").with_context(|| format!("{} is not absolute", path.display()))?;
        let name = name.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
        self.inode += 1;
        let size = u32::try_from(content.len()).with_context(|| format!("{name} is too large"))?;
        let name_size = u32::try_from(name.len() + 1)?;
        let (user, group, links, time, check) = (0, 0, 1, 0, 0);
        // Major and minor number of the device that the file is on, then of the device that it is.
        let (on, is) = ((0, 0), device);
        let fields = [self.inode, mode, user, group, links, time, size, on.0, on.1, is.0, is.1, name_size, check];
        let fields: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        let head = format!("070701{fields}{name}\0");
        for part in [head.as_bytes(), content] {
            self.out.write_all(part)?;
            // Both end on a multiple of 4.
            let padding = part.len().next_multiple_of(4) - part.len();
            self.out.write_all(&[0].repeat(padding))?;
        }
        Ok(())
    }
}

/// The shared libraries and the loader of a program, from ldd(1).
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).env("LC_ALL", "C").output().context("cannot start ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        // A program without libraries is an error for ldd.
        let error = String::from_utf8_lossy(&output.stderr);
        let is_static = [&*text, &*error].iter().any(|text| text.contains("not a dynamic executable"));
        ensure!(is_static, "ldd {}: {}", program.display(), error.trim_end());
        return Ok(Vec::new());
    }
    parse_ldd(&text).with_context(|| format!("ldd {}", program.display()))
}

/// Lines are `NAME => PATH (ADDRESS)`, `PATH (ADDRESS)` for the loader, and `NAME (ADDRESS)` for what the kernel maps.
fn parse_ldd(text: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| *line != "statically linked") {
        ensure!(!line.ends_with("not found"), "{line}");
        let place = line.split_once(" => ").map_or(line, |(_, place)| place);
        let place = place.split_once(" (").map_or(place, |(place, _)| place);
        if place.starts_with('/') {
            found.push(PathBuf::from(place));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Archive, parse_ldd};
    use std::path::{Path, PathBuf};

    #[test]
    fn entries_are_aligned_and_folders_come_first() {
        let source = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(source.path(), "hello").unwrap();
        let mut archive = Archive::new(Vec::new());
        archive.file(Path::new("/a/b"), source.path()).unwrap();
        archive.file(Path::new("/a/b"), source.path()).unwrap();
        archive.device(Path::new("/a/c"), 5, 1).unwrap();
        let bytes = archive.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let head = |inode: u32, mode: &str, size: u32, device: &str, name: u32| {
            let zero = "00000000";
            let owner = format!("{zero}{zero}00000001{zero}");
            format!("070701{inode:08x}{mode}{owner}{size:08x}{zero}{zero}{device}{name:08x}{zero}")
        };
        let none = "0000000000000000";
        let expected = [
            head(1, "000041ed", 0, none, 2),
            "a\0".into(),
            head(2, "000081ed", 5, none, 4),
            "a/b\0\0\0hello\0\0\0".into(),
            head(3, "00002180", 0, "0000000500000001", 4),
            "a/c\0\0\0".into(),
            head(4, "00000000", 0, none, 11),
            "TRAILER!!!\0\0\0\0".into(),
        ];
        assert_eq!(text, expected.concat());
        assert_eq!(text.len() % 4, 0);
    }

    #[test]
    fn libraries_are_what_has_a_path() {
        let text =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let found = parse_ldd(text).unwrap();
        assert_eq!(found, ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from));
        assert_eq!(parse_ldd("\tstatically linked\n").unwrap(), Vec::<PathBuf>::new());
        let error = parse_ldd("\tlibx.so.1 => not found\n").unwrap_err().to_string();
        assert_eq!(error, "libx.so.1 => not found");
    }
}
