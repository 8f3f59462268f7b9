//! Fixture for benchmarks: one operation of WASI 0.2, many times in one call, so that the call itself does not count.

use act_sdk::prelude::*;
use core::fmt::Debug;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

fn error(problem: impl Debug) -> ActError {
    ActError::internal(format!("{problem:?}"))
}

/// One request; how many bytes its response has.
fn request(authority: &str) -> ActResult<usize> {
    let request = OutgoingRequest::new(Fields::new());
    let set = request.set_scheme(Some(&Scheme::Http)).and_then(|()| request.set_authority(Some(authority)));
    set.and_then(|()| request.set_path_with_query(Some("/"))).map_err(|()| error("the authority"))?;
    let coming = handle(request, None).map_err(error)?;
    coming.subscribe().block();
    let response = coming.get().ok_or_else(|| error("no response"))?.map_err(|()| error("taken"))?.map_err(error)?;
    if response.status() != 200 {
        return Err(error(response.status()));
    }
    let body = response.consume().map_err(|()| error("no body"))?;
    let stream = body.stream().map_err(|()| error("no stream"))?;
    let mut size = 0;
    loop {
        match stream.blocking_read(64 * 1024) {
            Ok(bytes) => size += bytes.len(),
            Err(StreamError::Closed) => return Ok(size),
            Err(problem) => return Err(error(problem)),
        }
    }
}

/// One operation on `name` below the first preopened directory, where `file` is open; what it yields is counted.
fn operation(what: &str, top: &Descriptor, file: &Descriptor, name: &str) -> ActResult<usize> {
    let open =
        |how, name: &str| top.open_at(PathFlags::SYMLINK_FOLLOW, name, how, DescriptorFlags::READ).map_err(error);
    match what {
        "open" => open(OpenFlags::empty(), name).map(|_| 1),
        "read" => file.read(4096, 0).map(|(bytes, _)| bytes.len()).map_err(error),
        "stat" => top.stat_at(PathFlags::SYMLINK_FOLLOW, name).map(|stat| stat.size as usize).map_err(error),
        "readdir" => {
            let parent = name.rsplit_once('/').map_or(".", |(parent, _)| parent);
            let entries = open(OpenFlags::DIRECTORY, parent)?.read_directory().map_err(error)?;
            let mut count = 0;
            while entries.read_directory_entry().map_err(error)?.is_some() {
                count += 1;
            }
            Ok(count)
        }
        other => Err(error(other)),
    }
}

#[act_component]
mod component {
    use super::*;

    #[act_tool(description = "Requests one after another to an authority over http; the bytes of all responses")]
    fn requests(authority: String, count: u32) -> ActResult<String> {
        let mut size = 0;
        for _ in 0..count {
            size += request(&authority)?;
        }
        Ok(size.to_string())
    }

    #[act_tool(description = "open, read, stat or readdir on a file below the first preopened directory, many times")]
    fn files(what: String, name: String, count: u32) -> ActResult<String> {
        let (top, _) = get_directories().into_iter().next().ok_or_else(|| error("no preopened directory"))?;
        let file = top.open_at(PathFlags::SYMLINK_FOLLOW, &name, OpenFlags::empty(), DescriptorFlags::READ);
        let file = file.map_err(error)?;
        let mut size = 0;
        for _ in 0..count {
            size += operation(&what, &top, &file, &name)?;
        }
        Ok(size.to_string())
    }
}
