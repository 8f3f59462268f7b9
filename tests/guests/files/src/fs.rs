//! Files over `wasi:filesystem` 0.2, without the standard library in between.

use crate::error;
use act_sdk::prelude::*;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

pub(crate) fn preopens() -> String {
    get_directories().into_iter().map(|(_, path)| path).collect::<Vec<_>>().join("\n")
}

/// The preopen with the longest name that is a prefix of `path`, and the rest of the path.
/// A relative path belongs to the first preopen.
fn split(path: &str) -> ActResult<(Descriptor, String)> {
    let mut best: Option<(usize, Descriptor, String)> = None;
    for (dir, name) in get_directories() {
        let name = name.trim_end_matches('/');
        let rest = match path.strip_prefix(name) {
            Some("") => ".",
            Some(rest) if rest.starts_with('/') => match rest.trim_start_matches('/') {
                "" => ".",
                rest => rest,
            },
            _ if !path.starts_with('/') => path,
            _ => continue,
        };
        if best.as_ref().is_none_or(|(length, ..)| name.len() > *length && path.starts_with('/')) {
            best = Some((name.len(), dir, rest.to_owned()));
        }
    }
    best.map(|(_, dir, rest)| (dir, rest)).ok_or_else(|| error("no preopen holds this path"))
}

pub(crate) fn open(path: &str, how: OpenFlags, access: DescriptorFlags) -> ActResult<Descriptor> {
    let (dir, rest) = split(path)?;
    dir.open_at(PathFlags::SYMLINK_FOLLOW, &rest, how, access).map_err(error)
}

pub(crate) fn read(path: &str) -> ActResult<String> {
    let file = open(path, OpenFlags::empty(), DescriptorFlags::READ)?;
    let mut all = Vec::new();
    loop {
        let (part, end) = file.read(64 * 1024, all.len() as u64).map_err(error)?;
        all.extend_from_slice(&part);
        if end || part.is_empty() {
            return Ok(String::from_utf8_lossy(&all).into_owned());
        }
    }
}

pub(crate) fn write(path: &str, text: &str, times: u32) -> ActResult<String> {
    let file = open(path, OpenFlags::CREATE | OpenFlags::TRUNCATE, DescriptorFlags::WRITE)?;
    let mut done = 0;
    for _ in 0..times {
        let mut left = text.as_bytes();
        while !left.is_empty() {
            let written = file.write(left, done).map_err(error)?;
            left = &left[written as usize..];
            done += written;
        }
    }
    Ok(format!("wrote {done}"))
}

pub(crate) fn append(path: &str, text: &str) -> ActResult<String> {
    let file = open(path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
    let stream = file.append_via_stream().map_err(error)?;
    for part in text.as_bytes().chunks(4096) {
        stream.blocking_write_and_flush(part).map_err(error)?;
    }
    Ok(format!("appended {}", text.len()))
}

pub(crate) fn list(path: &str) -> ActResult<String> {
    let entries = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?.read_directory().map_err(error)?;
    let mut names = Vec::new();
    while let Some(entry) = entries.read_directory_entry().map_err(error)? {
        names.push(entry.name);
    }
    names.sort();
    Ok(names.join("\n"))
}

pub(crate) fn stat(path: &str, follow: bool) -> ActResult<String> {
    let (dir, rest) = split(path)?;
    let flags = if follow { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() };
    let stat = dir.stat_at(flags, &rest).map_err(error)?;
    Ok(format!("{:?} size {} links {}", stat.type_, stat.size, stat.link_count))
}

/// Runs an operation that takes a directory and a path below it.
pub(crate) fn at(path: &str, work: impl FnOnce(&Descriptor, &str) -> Result<(), ErrorCode>) -> ActResult<String> {
    let (dir, rest) = split(path)?;
    work(&dir, &rest).map_err(error)?;
    Ok("ok".into())
}

pub(crate) fn rename(from: &str, to: &str) -> ActResult<String> {
    let (to_dir, to_rest) = split(to)?;
    at(from, |dir, rest| dir.rename_at(rest, &to_dir, &to_rest))
}

pub(crate) fn hard_link(from: &str, to: &str) -> ActResult<String> {
    let (to_dir, to_rest) = split(to)?;
    at(from, |dir, rest| dir.link_at(PathFlags::empty(), rest, &to_dir, &to_rest))
}

pub(crate) fn read_link(path: &str) -> ActResult<String> {
    let (dir, rest) = split(path)?;
    dir.readlink_at(&rest).map_err(error)
}

pub(crate) fn open_with(path: &str, flags: &str) -> ActResult<String> {
    let (mut how, mut access, mut follow) = (OpenFlags::empty(), DescriptorFlags::empty(), PathFlags::SYMLINK_FOLLOW);
    for flag in flags.split(',').map(str::trim).filter(|f| !f.is_empty()) {
        match flag {
            "create" => how |= OpenFlags::CREATE,
            "directory" => how |= OpenFlags::DIRECTORY,
            "exclusive" => how |= OpenFlags::EXCLUSIVE,
            "truncate" => how |= OpenFlags::TRUNCATE,
            "read" => access |= DescriptorFlags::READ,
            "write" => access |= DescriptorFlags::WRITE,
            "mutate" => access |= DescriptorFlags::MUTATE_DIRECTORY,
            "nofollow" => follow = PathFlags::empty(),
            other => return Err(ActError::invalid_args(format!("unknown flag `{other}`"))),
        }
    }
    let (dir, rest) = split(path)?;
    dir.open_at(follow, &rest, how, access).map_err(error)?;
    Ok("ok".into())
}

const FLAGS: [&str; 7] = ["create", "directory", "exclusive", "truncate", "read", "write", "mutate"];

pub(crate) fn open_all(path: &str) -> ActResult<String> {
    let mut lines = Vec::new();
    for bits in 0..1u32 << FLAGS.len() {
        let chosen: Vec<&str> = (0..FLAGS.len()).filter(|n| bits & (1 << n) != 0).map(|n| FLAGS[n]).collect();
        let flags = chosen.join(",");
        let outcome = open_with(path, &flags).unwrap_or_else(|error| error.message.to_string());
        lines.push(format!("{flags}: {outcome}"));
    }
    Ok(lines.join("\n"))
}
