//! `wasi:filesystem` 0.3 on the shared implementation.

use super::fault::{code3, fault3};
use super::judge::Files;
use super::listing3::Listing;
use super::open::descriptor;
use super::{FsView, HostFs};
use crate::state::State;
use act_files::{Fault, Kind, Opening, identity};
use act_paths::Follow;
use rustix::fs::{FileType, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use std::fs::File;
use std::sync::Arc;
use tokio::sync::oneshot;
use wasmtime::AsContextMut as _;
use wasmtime::component::{Access, Accessor, FutureReader, Resource, StreamReader};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystem as Plain, WasiFilesystemCtxView};
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::preopens;
use wasmtime_wasi::p3::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, Filesize, HostDescriptor,
    HostDescriptorWithStore, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

type Fd = Resource<Descriptor>;
type Store = Accessor<State, HostFs>;

fn plain_view(state: &mut State) -> WasiFilesystemCtxView<'_> {
    wasmtime_wasi::filesystem::WasiFilesystemView::filesystem(state)
}

fn plain(store: &Store) -> Accessor<State, Plain> {
    store.with_getter::<Plain>(plain_view)
}

fn plain_access<'a>(store: &'a mut Access<'_, State, HostFs>) -> Access<'a, State, Plain> {
    Access::<State, Plain>::new(store.as_context_mut(), plain_view)
}

fn follow(flags: PathFlags) -> Follow {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { Follow::Yes } else { Follow::No }
}

fn opening(open: OpenFlags, flags: DescriptorFlags) -> Opening {
    Opening {
        directory: open.contains(OpenFlags::DIRECTORY),
        create: open.contains(OpenFlags::CREATE),
        exclusive: open.contains(OpenFlags::EXCLUSIVE),
        truncate: open.contains(OpenFlags::TRUNCATE),
        read: flags.contains(DescriptorFlags::READ),
        write: flags.contains(DescriptorFlags::WRITE),
        sync: flags.intersects(
            DescriptorFlags::FILE_INTEGRITY_SYNC
                | DescriptorFlags::DATA_INTEGRITY_SYNC
                | DescriptorFlags::REQUESTED_WRITE_SYNC,
        ),
    }
}

pub(super) fn kind(kind: Kind) -> DescriptorType {
    match kind {
        Kind::RegularFile => DescriptorType::RegularFile,
        Kind::Directory => DescriptorType::Directory,
        Kind::Symlink => DescriptorType::SymbolicLink,
        Kind::BlockDevice => DescriptorType::BlockDevice,
        Kind::CharacterDevice => DescriptorType::CharacterDevice,
        Kind::Fifo => DescriptorType::Fifo,
        Kind::Socket => DescriptorType::Socket,
        Kind::Unknown => DescriptorType::Other(None),
    }
}

fn time(seconds: i64, nanoseconds: u64) -> Option<Instant> {
    Some(Instant { seconds, nanoseconds: nanoseconds.try_into().ok()? })
}

#[expect(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "widths differ between architectures")]
fn stat3(stat: &Stat) -> DescriptorStat {
    DescriptorStat {
        type_: kind(FileType::from_raw_mode(stat.st_mode).into()),
        link_count: stat.st_nlink as u64,
        size: stat.st_size as u64,
        data_access_timestamp: time(stat.st_atime as i64, stat.st_atime_nsec as u64),
        data_modification_timestamp: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        status_change_timestamp: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
    }
}

fn hash3(stat: &Stat) -> MetadataHashValue {
    let (lower, upper) = identity(stat);
    MetadataHashValue { lower, upper }
}

fn timespec(time: NewTimestamp) -> Result<Timespec, Fault> {
    Ok(match time {
        NewTimestamp::NoChange => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        NewTimestamp::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        NewTimestamp::Timestamp(Instant { nanoseconds: 1_000_000_000.., .. }) => return Err(Errno::INVAL.into()),
        NewTimestamp::Timestamp(at) => Timespec { tv_sec: at.seconds, tv_nsec: at.nanoseconds.into() },
    })
}

fn times(access: NewTimestamp, modification: NewTimestamp) -> FilesystemResult<Timestamps> {
    let last_access = timespec(access).map_err(fault3)?;
    Ok(Timestamps { last_access, last_modification: timespec(modification).map_err(fault3)? })
}

fn get(store: &Store, fd: &Fd) -> FilesystemResult<(Arc<Files>, Descriptor)> {
    store.with(|mut access| {
        let view = access.get();
        let descriptor = view.table.get(fd).map_err(FilesystemError::trap)?.clone();
        Ok((view.files.clone(), descriptor))
    })
}

fn dir(store: &Store, fd: &Fd) -> FilesystemResult<(Arc<Files>, Arc<File>)> {
    match get(store, fd)? {
        (files, Descriptor::Dir(dir)) => Ok((files, dir.dir)),
        (_, Descriptor::File(_)) => Err(ErrorCode::NotDirectory.into()),
    }
}

fn any(store: &Store, fd: &Fd) -> FilesystemResult<Arc<File>> {
    Ok(match get(store, fd)?.1 {
        Descriptor::Dir(dir) => dir.dir,
        Descriptor::File(file) => file.file,
    })
}

impl types::Host for FsView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<ErrorCode> {
        types::Host::convert_error_code(&mut self.plain(), error)
    }
}

impl HostDescriptor for FsView<'_> {
    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.plain(), fd)
    }
}

impl preopens::Host for FsView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        wasmtime_wasi::p2::bindings::filesystem::preopens::Host::get_directories(self)
    }
}

impl HostDescriptorWithStore<State> for HostFs {
    async fn create_directory_at(store: &Store, fd: Fd, path: String) -> FilesystemResult<()> {
        let (files, dir) = dir(store, &fd)?;
        files.make_directory(&dir, path.as_bytes()).await.map_err(fault3)
    }

    async fn stat(store: &Store, fd: Fd) -> FilesystemResult<DescriptorStat> {
        let file = any(store, &fd)?;
        Files::stat(&file).map(|s| stat3(&s)).map_err(fault3)
    }

    async fn stat_at(store: &Store, fd: Fd, flags: PathFlags, path: String) -> FilesystemResult<DescriptorStat> {
        let (files, dir) = dir(store, &fd)?;
        files.stat_at(&dir, path.as_bytes(), follow(flags)).await.map(|s| stat3(&s)).map_err(fault3)
    }

    async fn metadata_hash(store: &Store, fd: Fd) -> FilesystemResult<MetadataHashValue> {
        let file = any(store, &fd)?;
        Files::stat(&file).map(|s| hash3(&s)).map_err(fault3)
    }

    async fn metadata_hash_at(
        store: &Store,
        fd: Fd,
        flags: PathFlags,
        path: String,
    ) -> FilesystemResult<MetadataHashValue> {
        let (files, dir) = dir(store, &fd)?;
        files.stat_at(&dir, path.as_bytes(), follow(flags)).await.map(|s| hash3(&s)).map_err(fault3)
    }

    async fn set_times(
        store: &Store,
        fd: Fd,
        access: NewTimestamp,
        modification: NewTimestamp,
    ) -> FilesystemResult<()> {
        let times = times(access, modification)?;
        match get(store, &fd)? {
            (files, Descriptor::Dir(dir)) => files.set_directory_times(&dir.dir, &times).await.map_err(fault3),
            (_, Descriptor::File(file)) if file.perms.write_not_permitted() => Err(ErrorCode::NotPermitted.into()),
            (files, Descriptor::File(file)) => files.set_file_times(&file.file, &times).map_err(fault3),
        }
    }

    async fn set_times_at(
        store: &Store,
        fd: Fd,
        flags: PathFlags,
        path: String,
        access: NewTimestamp,
        modification: NewTimestamp,
    ) -> FilesystemResult<()> {
        let times = times(access, modification)?;
        let (files, dir) = dir(store, &fd)?;
        files.set_times_at(&dir, path.as_bytes(), follow(flags), &times).await.map_err(fault3)
    }

    async fn link_at(
        store: &Store,
        fd: Fd,
        flags: PathFlags,
        path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FilesystemResult<()> {
        let (files, old_dir) = dir(store, &fd)?;
        let (_, new_dir) = dir(store, &new_fd)?;
        let (from, to) = ((&*old_dir, path.as_bytes()), (&*new_dir, new_path.as_bytes()));
        files.link(from, follow(flags), to).await.map_err(fault3)
    }

    async fn open_at(
        store: &Store,
        fd: Fd,
        flags: PathFlags,
        path: String,
        open: OpenFlags,
        rights: DescriptorFlags,
    ) -> FilesystemResult<Fd> {
        let (files, dir) = dir(store, &fd)?;
        let opening = opening(open, rights);
        let opened = files.open(&dir, path.as_bytes(), follow(flags), opening).await.map_err(fault3)?;
        let opened = descriptor(opened, opening, rights.contains(DescriptorFlags::MUTATE_DIRECTORY));
        store.with(|mut access| access.get().table.push(opened)).map_err(FilesystemError::trap)
    }

    async fn readlink_at(store: &Store, fd: Fd, path: String) -> FilesystemResult<String> {
        let (files, dir) = dir(store, &fd)?;
        files.read_link(&dir, path.as_bytes()).await.map_err(fault3)
    }

    async fn remove_directory_at(store: &Store, fd: Fd, path: String) -> FilesystemResult<()> {
        let (files, dir) = dir(store, &fd)?;
        files.remove_directory(&dir, path.as_bytes()).await.map_err(fault3)
    }

    async fn rename_at(store: &Store, fd: Fd, path: String, new_fd: Fd, new_path: String) -> FilesystemResult<()> {
        let (files, old_dir) = dir(store, &fd)?;
        let (_, new_dir) = dir(store, &new_fd)?;
        let (from, to) = ((&*old_dir, path.as_bytes()), (&*new_dir, new_path.as_bytes()));
        files.rename(from, to).await.map_err(fault3)
    }

    async fn symlink_at(store: &Store, fd: Fd, target: String, path: String) -> FilesystemResult<()> {
        let (files, dir) = dir(store, &fd)?;
        files.make_link(&target, &dir, path.as_bytes()).await.map_err(fault3)
    }

    async fn unlink_file_at(store: &Store, fd: Fd, path: String) -> FilesystemResult<()> {
        let (files, dir) = dir(store, &fd)?;
        files.remove_file(&dir, path.as_bytes()).await.map_err(fault3)
    }

    fn read_directory(
        mut store: Access<'_, State, Self>,
        fd: Fd,
    ) -> wasmtime::Result<(StreamReader<DirectoryEntry>, FutureReader<Result<(), ErrorCode>>)> {
        let view = store.get();
        let files = view.files.clone();
        let descriptor = view.table.get(&fd)?.clone();
        let (result, end) = oneshot::channel();
        let entries = async move {
            match descriptor {
                Descriptor::Dir(dir) => files.list(&dir.dir).await.map_err(code3),
                Descriptor::File(_) => Err(ErrorCode::NotDirectory),
            }
        };
        let listing = Listing::new(Box::pin(entries), result);
        let stream = StreamReader::new(&mut store, listing)?;
        Ok((stream, FutureReader::new(&mut store, end)?))
    }

    // What follows works on an open descriptor, whose rights were judged when it was opened.

    fn read_via_stream(
        mut store: Access<'_, State, Self>,
        fd: Fd,
        offset: Filesize,
    ) -> wasmtime::Result<(StreamReader<u8>, FutureReader<Result<(), ErrorCode>>)> {
        Plain::read_via_stream(plain_access(&mut store), fd, offset)
    }

    fn write_via_stream(
        mut store: Access<'_, State, Self>,
        fd: Fd,
        data: StreamReader<u8>,
        offset: Filesize,
    ) -> wasmtime::Result<FutureReader<Result<(), ErrorCode>>> {
        Plain::write_via_stream(plain_access(&mut store), fd, data, offset)
    }

    fn append_via_stream(
        mut store: Access<'_, State, Self>,
        fd: Fd,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<FutureReader<Result<(), ErrorCode>>> {
        Plain::append_via_stream(plain_access(&mut store), fd, data)
    }

    async fn advise(store: &Store, fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FilesystemResult<()> {
        Plain::advise(&plain(store), fd, offset, length, advice).await
    }

    async fn sync_data(store: &Store, fd: Fd) -> FilesystemResult<()> {
        Plain::sync_data(&plain(store), fd).await
    }

    async fn sync(store: &Store, fd: Fd) -> FilesystemResult<()> {
        Plain::sync(&plain(store), fd).await
    }

    async fn get_flags(store: &Store, fd: Fd) -> FilesystemResult<DescriptorFlags> {
        Plain::get_flags(&plain(store), fd).await
    }

    async fn get_type(store: &Store, fd: Fd) -> FilesystemResult<DescriptorType> {
        Plain::get_type(&plain(store), fd).await
    }

    async fn set_size(store: &Store, fd: Fd, size: Filesize) -> FilesystemResult<()> {
        Plain::set_size(&plain(store), fd, size).await
    }

    async fn is_same_object(store: &Store, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        Plain::is_same_object(&plain(store), a, b).await
    }
}
