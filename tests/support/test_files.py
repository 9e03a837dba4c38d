"""Files appear whole or not at all, and nothing is left of processes that were killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attlas.support.files import atomic_write, fcntl, write_bytes


def test_a_temporary_file_that_nobody_holds_is_removed_by_the_next_write(tmp_path: Path) -> None:
    (tmp_path / ".attlas-abcdefgh.tmp").write_bytes(b"half")
    mine = {".attlas-mine.tmp", ".attlas-ABCDEFGH.tmp", "notes.tmp"}
    for name in mine:
        (tmp_path / name).write_bytes(b"mine")
    write_bytes(tmp_path / "page.html", b"whole")
    left = set() if fcntl else {".attlas-abcdefgh.tmp"}  # without flock it may be held: it stays
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", *mine, *left}


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "first") as file:
        file.write(b"first")
        write_bytes(tmp_path / "second", b"second")
    assert (tmp_path / "first").read_bytes() == b"first"
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second"}


def test_a_link_with_a_temporary_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / ".attlas-abcdefgh.tmp").symlink_to(tmp_path / "victim")
    write_bytes(tmp_path / "page.html", b"whole")
    assert (tmp_path / "victim").read_bytes() == b"mine"


def test_writers_in_one_folder_do_not_remove_what_others_write(tmp_path: Path) -> None:
    """Before it is moved to its place, a file of another thread must not count as abandoned."""

    def write(number: int) -> None:
        for turn in range(60):
            with atomic_write(tmp_path / f"{number}.txt") as file:
                file.write(f"{number} {turn}".encode())

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, number) for number in range(4)]:
            done.result()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        f"{number}.txt": f"{number} 59" for number in range(4)
    }
