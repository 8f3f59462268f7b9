"""Fixture: files and sockets through Python's standard library.

A component can use only the modules that are imported here at the top.
"""

import encodings.idna  # noqa: F401  (name resolution needs it)
import os
import socket

from act_sdk import ActError, component, tool


def error(problem: Exception) -> ActError:
    return ActError("std:internal", f"{type(problem).__name__}: {problem}")


@component
class Py:
    @tool(description="Read a file", read_only=True)
    async def read_file(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except Exception as problem:
            raise error(problem)

    @tool(description="Replace a file")
    async def write_file(self, path: str, text: str) -> str:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return f"wrote {len(text)}"
        except Exception as problem:
            raise error(problem)

    @tool(description="The sorted names in a directory", read_only=True)
    async def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except Exception as problem:
            raise error(problem)

    @tool(description="Type and size of a path", read_only=True)
    async def stat(self, path: str) -> str:
        try:
            found = os.stat(path)
            return f"mode {found.st_mode:o} size {found.st_size}"
        except Exception as problem:
            raise error(problem)

    @tool(description="Make a directory")
    async def mkdir(self, path: str) -> str:
        try:
            os.mkdir(path)
            return "ok"
        except Exception as problem:
            raise error(problem)

    @tool(description="Remove a file", destructive=True)
    async def unlink(self, path: str) -> str:
        try:
            os.unlink(path)
            return "ok"
        except Exception as problem:
            raise error(problem)

    @tool(description="Rename", destructive=True)
    async def rename(self, old: str, new: str) -> str:
        try:
            os.rename(old, new)
            return "ok"
        except Exception as problem:
            raise error(problem)

    @tool(description="Make a symbolic link")
    async def symlink(self, target: str, link: str) -> str:
        try:
            os.symlink(target, link)
            return "ok"
        except Exception as problem:
            raise error(problem)

    @tool(description="Connect, send, return the first answer")
    async def tcp(self, host: str, port: int, send: str = "ping") -> str:
        try:
            with socket.create_connection((host, port), timeout=5) as connection:
                connection.sendall(send.encode())
                return connection.recv(65536).decode()
        except Exception as problem:
            raise error(problem)

    @tool(description="Send one datagram, return the first answer")
    async def udp(self, host: str, port: int, send: str = "ping") -> str:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
                datagram.settimeout(3)
                datagram.sendto(send.encode(), (host, port))
                return datagram.recv(65536).decode()
        except Exception as problem:
            raise error(problem)

    @tool(description="The addresses of a name", read_only=True)
    async def resolve(self, name: str) -> list[str]:
        try:
            return sorted({found[4][0] for found in socket.getaddrinfo(name, 80)})
        except Exception as problem:
            raise error(problem)

    @tool(description="Take a number of MiB of memory", read_only=True)
    async def grow(self, mib: int) -> str:
        try:
            return f"grew {len(bytearray(mib << 20)) >> 20} MiB"
        except MemoryError as problem:
            raise error(problem)

    @tool(description="Environment and arguments", read_only=True)
    async def env(self) -> str:
        return repr(dict(os.environ))

    @tool(description="Loop forever", read_only=True)
    async def spin(self) -> str:
        while True:
            pass
