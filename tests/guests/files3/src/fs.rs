//! Files over `wasi:filesystem` 0.3.

use crate::error;
use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};

pub(crate) fn preopens() -> String {
    get_directories().into_iter().map(|(_, path)| path).collect::<Vec<_>>().join("\n")
}

/// The preopen with the longest name that is a prefix of `path`, and the rest of the path.
/// A relative path belongs to the first preopen.
fn split(path: &str) -> Result<(Descriptor, String), String> {
    let mut preopens = get_directories();
    if path.starts_with('/') {
        preopens.sort_by_key(|(_, name)| core::cmp::Reverse(name.len()));
    }
    for (dir, name) in preopens {
        let rest = match path.strip_prefix(name.trim_end_matches('/')) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
            _ if !path.starts_with('/') => path,
            _ => continue,
        };
        return Ok((dir, if rest.is_empty() { ".".to_owned() } else { rest.to_owned() }));
    }
    Err("no preopen holds this path".to_owned())
}

async fn open(path: &str, how: OpenFlags, access: DescriptorFlags) -> Result<Descriptor, String> {
    let (dir, rest) = split(path)?;
    dir.open_at(PathFlags::SYMLINK_FOLLOW, rest, how, access).await.map_err(error)
}

pub(crate) async fn read(path: &str) -> Result<String, String> {
    let file = open(path, OpenFlags::empty(), DescriptorFlags::READ).await?;
    let (stream, end) = file.read_via_stream(0);
    let bytes = stream.collect().await;
    end.await.map_err(error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) async fn write(path: &str, text: &str) -> Result<String, String> {
    let file = open(path, OpenFlags::CREATE | OpenFlags::TRUNCATE, DescriptorFlags::WRITE).await?;
    let (mut sender, stream) = wasip3::wit_stream::new();
    let end = file.write_via_stream(stream, 0);
    let send = async move { sender.write_all(text.as_bytes().to_vec()).await };
    let (_, outcome) = futures::join!(send, end.into_future());
    outcome.map_err(error)?;
    Ok(format!("wrote {}", text.len()))
}

pub(crate) async fn append(path: &str, text: &str) -> Result<String, String> {
    let file = open(path, OpenFlags::CREATE, DescriptorFlags::WRITE).await?;
    let (mut sender, stream) = wasip3::wit_stream::new();
    let end = file.append_via_stream(stream);
    let send = async move { sender.write_all(text.as_bytes().to_vec()).await };
    let (_, outcome) = futures::join!(send, end.into_future());
    outcome.map_err(error)?;
    Ok(format!("appended {}", text.len()))
}

pub(crate) async fn list(path: &str) -> Result<String, String> {
    let dir = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ).await?;
    let (entries, end) = dir.read_directory();
    let mut names: Vec<String> = entries.collect().await.into_iter().map(|entry| entry.name).collect();
    end.await.map_err(error)?;
    names.sort();
    Ok(names.join("\n"))
}

pub(crate) async fn stat(path: &str) -> Result<String, String> {
    let (dir, rest) = split(path)?;
    let stat = dir.stat_at(PathFlags::SYMLINK_FOLLOW, rest).await.map_err(error)?;
    Ok(format!("{:?} size {} links {}", stat.type_, stat.size, stat.link_count))
}

pub(crate) async fn mkdir(path: &str) -> Result<String, String> {
    let (dir, rest) = split(path)?;
    dir.create_directory_at(rest).await.map_err(error).map(ok)
}

pub(crate) async fn unlink(path: &str) -> Result<String, String> {
    let (dir, rest) = split(path)?;
    dir.unlink_file_at(rest).await.map_err(error).map(ok)
}

pub(crate) async fn rename(from: &str, to: &str) -> Result<String, String> {
    let ((dir, rest), (to_dir, to_rest)) = (split(from)?, split(to)?);
    dir.rename_at(rest, &to_dir, to_rest).await.map_err(error).map(ok)
}

pub(crate) async fn symlink(target: &str, link: &str) -> Result<String, String> {
    let (dir, rest) = split(link)?;
    dir.symlink_at(target.to_owned(), rest).await.map_err(error).map(ok)
}

pub(crate) async fn hard_link(from: &str, to: &str) -> Result<String, String> {
    let ((dir, rest), (to_dir, to_rest)) = (split(from)?, split(to)?);
    dir.link_at(PathFlags::empty(), rest, &to_dir, to_rest).await.map_err(error).map(ok)
}

fn ok((): ()) -> String {
    "ok".to_owned()
}
