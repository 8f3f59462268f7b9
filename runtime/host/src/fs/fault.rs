//! The codes of a fault in each version of WASI.

use act_files::Fault;
use rustix::io::Errno;

/// The two versions have the same codes under different types.
macro_rules! code {
    ($fault:expr, $code:path, $other:expr) => {{
        use $code as Code;
        match $fault {
            Fault::Denied => Code::NotPermitted,
            Fault::Errno(errno) => match errno {
                Errno::ACCESS => Code::Access,
                Errno::AGAIN | Errno::BUSY => Code::Busy,
                Errno::BADF => Code::BadDescriptor,
                Errno::DQUOT => Code::Quota,
                Errno::EXIST => Code::Exist,
                Errno::FBIG => Code::FileTooLarge,
                Errno::ILSEQ => Code::IllegalByteSequence,
                Errno::INTR => Code::Interrupted,
                Errno::INVAL => Code::Invalid,
                Errno::ISDIR => Code::IsDirectory,
                Errno::LOOP => Code::Loop,
                Errno::MLINK => Code::TooManyLinks,
                Errno::NAMETOOLONG => Code::NameTooLong,
                Errno::NODEV => Code::NoDevice,
                Errno::NOENT => Code::NoEntry,
                Errno::NOMEM | Errno::MFILE | Errno::NFILE => Code::InsufficientMemory,
                Errno::NOSPC => Code::InsufficientSpace,
                Errno::NOTDIR => Code::NotDirectory,
                Errno::NOTEMPTY => Code::NotEmpty,
                Errno::NOTSUP | Errno::NOSYS => Code::Unsupported,
                Errno::NXIO => Code::NoSuchDevice,
                Errno::OVERFLOW => Code::Overflow,
                Errno::PERM => Code::NotPermitted,
                Errno::PIPE => Code::Pipe,
                Errno::ROFS => Code::ReadOnly,
                Errno::SPIPE => Code::InvalidSeek,
                Errno::TXTBSY => Code::TextFileBusy,
                Errno::XDEV => Code::CrossDevice,
                _ => $other,
            },
        }
    }};
}

/// The error of a 0.2 function.
pub(crate) fn fault2(fault: Fault) -> wasmtime_wasi::p2::FsError {
    use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
    code!(fault, ErrorCode, ErrorCode::Io).into()
}

/// The code of a 0.3 function.
pub(crate) fn code3(fault: Fault) -> wasmtime_wasi::p3::bindings::filesystem::types::ErrorCode {
    use wasmtime_wasi::p3::bindings::filesystem::types::ErrorCode;
    code!(fault, ErrorCode, ErrorCode::Io)
}

/// The error of a 0.3 function.
pub(crate) fn fault3(fault: Fault) -> wasmtime_wasi::p3::filesystem::FilesystemError {
    code3(fault).into()
}
