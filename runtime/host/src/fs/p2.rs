//! `wasi:filesystem` 0.2 on the shared implementation.

use super::FsView;
use super::fault::fault2;
use super::judge::Files;
use super::open::descriptor;
use act_files::{Entry, Fault, Kind, Opening, identity};
use act_paths::Follow;
use rustix::fs::{FileType, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use std::fs::File;
use std::sync::Arc;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

type Fd = Resource<Descriptor>;

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

fn kind(kind: Kind) -> DescriptorType {
    match kind {
        Kind::RegularFile => DescriptorType::RegularFile,
        Kind::Directory => DescriptorType::Directory,
        Kind::Symlink => DescriptorType::SymbolicLink,
        Kind::BlockDevice => DescriptorType::BlockDevice,
        Kind::CharacterDevice => DescriptorType::CharacterDevice,
        Kind::Fifo => DescriptorType::Fifo,
        Kind::Socket => DescriptorType::Socket,
        Kind::Unknown => DescriptorType::Unknown,
    }
}

/// A listing that the guest reads. The interface names wasmtime-wasi's own type for it, which only that crate can make:
/// a stream is told apart by its number in the table alone.
struct Listing(std::vec::IntoIter<Entry>);

/// Times before 1970 cannot be told in 0.2.
fn time(seconds: i64, nanoseconds: u64) -> Option<Datetime> {
    Some(Datetime { seconds: seconds.try_into().ok()?, nanoseconds: nanoseconds.try_into().ok()? })
}

#[expect(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "widths differ between architectures")]
fn stat2(stat: &Stat) -> DescriptorStat {
    DescriptorStat {
        type_: kind(FileType::from_raw_mode(stat.st_mode).into()),
        link_count: stat.st_nlink as u64,
        size: stat.st_size as u64,
        data_access_timestamp: time(stat.st_atime as i64, stat.st_atime_nsec as u64),
        data_modification_timestamp: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        status_change_timestamp: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
    }
}

fn hash2(stat: &Stat) -> MetadataHashValue {
    let (lower, upper) = identity(stat);
    MetadataHashValue { lower, upper }
}

fn timespec(time: NewTimestamp) -> Result<Timespec, Fault> {
    Ok(match time {
        NewTimestamp::NoChange => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        NewTimestamp::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        NewTimestamp::Timestamp(Datetime { nanoseconds: 1_000_000_000.., .. }) => return Err(Errno::INVAL.into()),
        NewTimestamp::Timestamp(at) => {
            Timespec { tv_sec: at.seconds.try_into().map_err(|_| Errno::OVERFLOW)?, tv_nsec: at.nanoseconds.into() }
        }
    })
}

fn times(access: NewTimestamp, modification: NewTimestamp) -> Result<Timestamps, Fault> {
    Ok(Timestamps { last_access: timespec(access)?, last_modification: timespec(modification)? })
}

impl FsView<'_> {
    /// A directory descriptor's directory, with the shared implementation; nothing of the store stays borrowed.
    fn dir(&self, fd: &Fd) -> FsResult<(Arc<Files>, Arc<File>)> {
        match self.table.get(fd)? {
            Descriptor::Dir(dir) => Ok((self.files.clone(), dir.dir.clone())),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    fn any(&self, fd: &Fd) -> FsResult<Arc<File>> {
        Ok(match self.table.get(fd)? {
            Descriptor::Dir(dir) => dir.dir.clone(),
            Descriptor::File(file) => file.file.clone(),
        })
    }
}

impl preopens::Host for FsView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        let mut shown = Vec::with_capacity(self.preopens.len());
        for (dir, name) in self.preopens.iter() {
            shown.push((self.table.push(Descriptor::Dir(dir.clone()))?, name.clone()));
        }
        Ok(shown)
    }
}

impl types::Host for FsView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        types::Host::convert_error_code(&mut self.plain(), error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        types::Host::filesystem_error_code(&mut self.plain(), error)
    }
}

impl HostDescriptor for FsView<'_> {
    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let (files, dir) = self.dir(&fd)?;
        files.make_directory(&dir, path.as_bytes()).await.map_err(fault2)
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        let file = self.any(&fd)?;
        Files::stat(&file).map(|stat| stat2(&stat)).map_err(fault2)
    }

    async fn stat_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        let (files, dir) = self.dir(&fd)?;
        let stat = files.stat_at(&dir, path.as_bytes(), follow(flags)).await;
        stat.map(|stat| stat2(&stat)).map_err(fault2)
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        let file = self.any(&fd)?;
        Files::stat(&file).map(|stat| hash2(&stat)).map_err(fault2)
    }

    async fn metadata_hash_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<MetadataHashValue> {
        let (files, dir) = self.dir(&fd)?;
        let stat = files.stat_at(&dir, path.as_bytes(), follow(flags)).await;
        stat.map(|stat| hash2(&stat)).map_err(fault2)
    }

    async fn set_times(&mut self, fd: Fd, access: NewTimestamp, modification: NewTimestamp) -> FsResult<()> {
        let times = times(access, modification).map_err(fault2)?;
        let files = self.files.clone();
        match self.table.get(&fd)?.clone() {
            Descriptor::Dir(dir) => files.set_directory_times(&dir.dir, &times).await.map_err(fault2),
            Descriptor::File(file) if file.perms.write_not_permitted() => Err(ErrorCode::NotPermitted.into()),
            Descriptor::File(file) => files.set_file_times(&file.file, &times).map_err(fault2),
        }
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
        access: NewTimestamp,
        modification: NewTimestamp,
    ) -> FsResult<()> {
        let times = times(access, modification).map_err(fault2)?;
        let (files, dir) = self.dir(&fd)?;
        files.set_times_at(&dir, path.as_bytes(), follow(flags), &times).await.map_err(fault2)
    }

    async fn link_at(&mut self, fd: Fd, flags: PathFlags, path: String, new_fd: Fd, new_path: String) -> FsResult<()> {
        let (files, dir) = self.dir(&fd)?;
        let (_, new_dir) = self.dir(&new_fd)?;
        let (from, to) = ((&*dir, path.as_bytes()), (&*new_dir, new_path.as_bytes()));
        files.link(from, follow(flags), to).await.map_err(fault2)
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
        open: OpenFlags,
        rights: DescriptorFlags,
    ) -> FsResult<Fd> {
        let (files, dir) = self.dir(&fd)?;
        let opening = opening(open, rights);
        let opened = files.open(&dir, path.as_bytes(), follow(flags), opening).await.map_err(fault2)?;
        let mutate = rights.contains(DescriptorFlags::MUTATE_DIRECTORY);
        Ok(self.table.push(descriptor(opened, opening, mutate))?)
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        let (files, dir) = self.dir(&fd)?;
        files.read_link(&dir, path.as_bytes()).await.map_err(fault2)
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let (files, dir) = self.dir(&fd)?;
        files.remove_directory(&dir, path.as_bytes()).await.map_err(fault2)
    }

    async fn rename_at(&mut self, fd: Fd, path: String, new_fd: Fd, new_path: String) -> FsResult<()> {
        let (files, dir) = self.dir(&fd)?;
        let (_, new_dir) = self.dir(&new_fd)?;
        let (from, to) = ((&*dir, path.as_bytes()), (&*new_dir, new_path.as_bytes()));
        files.rename(from, to).await.map_err(fault2)
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        let (files, dir) = self.dir(&fd)?;
        files.make_link(&target, &dir, path.as_bytes()).await.map_err(fault2)
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let (files, dir) = self.dir(&fd)?;
        files.remove_file(&dir, path.as_bytes()).await.map_err(fault2)
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let (files, dir) = self.dir(&fd)?;
        let entries = files.list(&dir).await.map_err(fault2)?;
        let listing = self.table.push(Listing(entries.into_iter()))?;
        Ok(Resource::new_own(listing.rep()))
    }

    // What follows works on an open descriptor, whose rights were judged when it was opened.

    async fn advise(&mut self, fd: Fd, offset: u64, length: u64, advice: Advice) -> FsResult<()> {
        self.plain().advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        self.plain().sync_data(fd).await
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.plain().sync(fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        self.plain().get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        self.plain().get_type(fd).await
    }

    async fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        self.plain().set_size(fd, size).await
    }

    async fn read(&mut self, fd: Fd, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        self.plain().read(fd, length, offset).await
    }

    async fn write(&mut self, fd: Fd, data: Vec<u8>, offset: u64) -> FsResult<u64> {
        self.plain().write(fd, data, offset).await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        self.plain().read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        self.plain().write_via_stream(fd, offset)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.plain().append_via_stream(fd)
    }

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        self.plain().is_same_object(a, b).await
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.plain(), fd)
    }
}

impl HostDirectoryEntryStream for FsView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = self.table.get_mut(&Resource::<Listing>::new_borrow(stream.rep()))?;
        Ok(listing.0.next().map(|entry| DirectoryEntry { type_: kind(entry.kind), name: entry.name }))
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        Ok(())
    }
}
