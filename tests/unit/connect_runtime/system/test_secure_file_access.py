from __future__ import annotations

import errno
import grp
import os
import pwd
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from connect_runtime.system import secure_file_access
from connect_runtime.system.secure_file_access import DirectoryNotPrivateError, UntrustedWriter


def test_it_is_made_for_this_user_alone(tmp_path):
    folder = tmp_path / "a" / "b"
    assert secure_file_access.ensure_private_directory(folder) == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert secure_file_access.ensure_private_directory(folder) == folder


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_one_that_others_can_enter_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(DirectoryNotPrivateError, match=f"chmod 700 {tmp_path}"):
        secure_file_access.ensure_private_directory(tmp_path)


def test_one_of_another_user_is_refused_also_behind_a_link(tmp_path):
    tmp_path.chmod(0o700)
    with pytest.raises(DirectoryNotPrivateError, match="belongs to user id"):
        secure_file_access.check_private_directory(tmp_path, uid=os.geteuid() + 1)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    secure_file_access.check_private_directory(link, uid=os.geteuid())
    if os.geteuid() == 0:  # nobody else may give a link away
        os.chown(link, 4242, -1, follow_symlinks=False)
        with pytest.raises(DirectoryNotPrivateError, match="belongs to user id 4242"):
            secure_file_access.check_private_directory(link, uid=0)


@pytest.mark.parametrize("root_may_use_foreign", [False, True])
def test_nobody_is_told_to_run_chmod_on_a_folder_of_another_user(tmp_path, root_may_use_foreign):
    tmp_path.chmod(0o755)
    with pytest.raises(DirectoryNotPrivateError) as caught:
        secure_file_access.check_private_directory(
            tmp_path, uid=os.geteuid() + 1, root_may_use_foreign=root_may_use_foreign
        )
    assert "chmod" not in str(caught.value)
    assert "remove it as root" in str(caught.value)


def test_root_may_use_a_folder_of_another_user_only_if_it_is_private(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    found = folder.stat()
    owned = os.stat_result([*found[:4], 4242, *found[5:]])  # 4 is the owner
    monkeypatch.setattr(Path, "lstat", lambda _: owned)
    monkeypatch.setattr(os, "fstat", lambda _: owned)
    secure_file_access.check_private_directory(folder, uid=0, root_may_use_foreign=True, opened=3)
    owned = os.stat_result([found.st_mode | 0o055, *owned[1:]])
    with pytest.raises(DirectoryNotPrivateError, match="chmod 700"):
        secure_file_access.check_private_directory(
            folder, uid=0, root_may_use_foreign=True, opened=3
        )


@pytest.mark.parametrize(
    ("mode", "written"), [(0o700, False), (0o755, False), (0o757, True), (0o1777, True)]
)
def test_who_can_write(tmp_path, mode, written):
    tmp_path.chmod(mode)
    assert secure_file_access.can_others_write(tmp_path) is written


def test_a_group_counts_unless_it_is_the_users_own(tmp_path, monkeypatch):
    tmp_path.chmod(0o775)
    name = pwd.getpwuid(os.geteuid()).pw_name

    class Group:
        gr_name = name
        gr_mem: list[str] = []  # noqa: RUF012 - as in `grp`

    monkeypatch.setattr(grp, "getgrgid", lambda _: Group)
    assert not secure_file_access.can_others_write(tmp_path)
    Group.gr_mem = ["another"]
    assert secure_file_access.can_others_write(tmp_path)
    Group.gr_name, Group.gr_mem = "staff", []
    assert secure_file_access.can_others_write(tmp_path)


@pytest.fixture
def writable_by_own_group(tmp_path, monkeypatch):
    """A file that a group of this user's name, without other members, may write."""
    file = tmp_path / "clusters.yaml"
    file.touch()
    file.chmod(0o664)
    own = pwd.getpwuid(os.geteuid())
    group = SimpleNamespace(gr_name=own.pw_name, gr_mem=[])
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    monkeypatch.setattr(pwd, "getpwall", lambda: [own])
    secure_file_access._list_primary_members.cache_clear()
    assert not secure_file_access.can_others_write(file)
    yield file
    secure_file_access._list_primary_members.cache_clear()


def test_an_account_whose_primary_group_it_is_counts_as_a_member(
    writable_by_own_group, monkeypatch
):
    gid = writable_by_own_group.stat().st_gid
    other = SimpleNamespace(pw_uid=os.geteuid() + 1, pw_gid=gid)
    monkeypatch.setattr(pwd, "getpwall", lambda: [other])
    secure_file_access._list_primary_members.cache_clear()
    assert secure_file_access.can_others_write(writable_by_own_group)


def test_an_access_control_list_may_let_others_write(writable_by_own_group):
    entries = [
        (0x01, 6, 0xFFFFFFFF),
        (0x02, 6, 65534),
        (0x04, 4, 0xFFFFFFFF),
        (0x10, 6, 0xFFFFFFFF),
    ]
    entries.append((0x20, 4, 0xFFFFFFFF))  # user, user 65534: rw, group, mask: rw, other
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(writable_by_own_group, "system.posix_acl_access", acl)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        writable_by_own_group.chmod(0o666)  # such a file system has no access control lists
    assert secure_file_access.can_others_write(writable_by_own_group)


def test_only_folders_of_this_user_and_root_are_trusted(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    assert secure_file_access.is_trusted_directory(tmp_path)
    tmp_path.chmod(0o757)
    assert not secure_file_access.is_trusted_directory(tmp_path)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert secure_file_access.is_trusted_directory(tmp_path) is (tmp_path.stat().st_uid == 0)


@pytest.fixture
def config(tmp_path):
    """A file of this user in a folder of this user."""
    folder = tmp_path / "config"
    folder.mkdir(mode=0o755)
    file = folder / "clusters.yaml"
    file.touch(mode=0o644)
    return file


def find_writer(file: Path) -> UntrustedWriter | None:
    with file.open("rb") as opened:
        return secure_file_access.find_untrusted_file_writer(file, opened.fileno())


def test_nobody_else_can_change_a_file_in_a_folder_of_this_user(config):
    assert find_writer(config) is None


@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_mode_that_lets_others_write_is_found(config, which):
    path = config if which == "file" else config.parent
    path.chmod(0o757)
    assert find_writer(config) == UntrustedWriter(path=path, owner=None)


def test_a_link_is_followed(config, tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to(config)
    assert find_writer(link) is None
    config.parent.chmod(0o777)
    assert find_writer(link) == UntrustedWriter(path=config.parent, owner=None)


def test_every_folder_and_link_on_the_way_counts(config, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "config").symlink_to("../config")
    (tmp_path / "near").symlink_to("far/config")
    linked = tmp_path / "near" / config.name
    for folder in (config.parent, tmp_path / "far"):
        assert find_writer(linked) is None
        folder.chmod(0o777)
        assert find_writer(linked) == UntrustedWriter(path=folder, owner=None)
        folder.chmod(0o755)
    tmp_path.chmod(0o777)
    assert find_writer(config) == UntrustedWriter(path=tmp_path, owner=None)
    tmp_path.chmod(0o1777)
    assert find_writer(config) is None


def test_a_file_that_is_exchanged_while_it_is_read_is_judged_as_it_was_read(config, monkeypatch):
    config.write_text("foreign")
    config.chmod(0o666)
    read = secure_file_access._read_descriptor

    def read_and_exchange(opened, max_bytes):
        content = read(opened, max_bytes)
        config.unlink()
        config.touch(mode=0o644)
        return content

    monkeypatch.setattr(secure_file_access, "_read_descriptor", read_and_exchange)
    expected = (b"foreign", UntrustedWriter(path=config, owner=None))
    assert secure_file_access.read_file_and_find_untrusted_writer(config, max_bytes=MB) == expected


def test_links_that_lead_nowhere_or_in_a_circle_are_errors(config, tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to("link.yaml")
    with config.open("rb") as opened:
        with pytest.raises(OSError, match="Too many levels"):
            secure_file_access.find_untrusted_file_writer(link, opened.fileno())
        with pytest.raises(FileNotFoundError):
            secure_file_access.find_untrusted_file_writer(
                tmp_path / "gone" / "c.yaml", opened.fileno()
            )


def test_in_a_sticky_folder_others_cannot_replace_a_file(config):
    config.parent.chmod(0o1777)
    assert find_writer(config) is None
    config.chmod(0o666)
    assert find_writer(config) == UntrustedWriter(path=config, owner=None)


def test_who_can_change_a_folder_of_modules_is_found(config, tmp_path):
    folder = tmp_path / "plugins"
    inner = folder / "package"
    inner.mkdir(parents=True)
    module = inner / "__init__.py"
    module.touch(mode=0o644)
    (folder / "link").symlink_to(config)
    (folder / "dangling").symlink_to("gone")
    find = secure_file_access.find_untrusted_folder_writer
    assert find(folder) is None
    for path in (tmp_path, folder, inner, module, config.parent, folder / "link"):
        before = path.stat().st_mode
        path.chmod(0o777)
        assert find(folder) == UntrustedWriter(path=path, owner=None)
        path.chmod(before)
    folder.chmod(0o1777)
    assert find(folder) == UntrustedWriter(path=folder, owner=None), "others can add modules"
    with pytest.raises(FileNotFoundError):
        find(folder / "none")


def test_folders_behind_links_are_searched_once_each(tmp_path, monkeypatch):
    plugins, real, other = tmp_path / "plugins", tmp_path / "real", tmp_path / "other"
    for folder in (plugins, real / "sub", other):
        folder.mkdir(parents=True)
    (plugins / "package").symlink_to(real)
    (real / "sub" / "back").symlink_to(plugins)
    (real / "sub" / "on").symlink_to(other)
    find = secure_file_access.find_untrusted_folder_writer
    assert find(plugins) is None
    for module in (real / "module.py", real / "sub" / "module.py", other / "module.py"):
        module.touch()
        module.chmod(0o666)
        assert find(plugins) == UntrustedWriter(path=module, owner=None)
        module.unlink()
    monkeypatch.setattr(secure_file_access, "_MAX_SEARCHED_FOLDERS", 4)
    assert find(plugins) is None
    monkeypatch.setattr(secure_file_access, "_MAX_SEARCHED_FOLDERS", 3)
    with pytest.raises(OSError, match="more than 3 folders"):
        find(plugins)


def test_a_file_that_vanishes_during_the_search_does_not_end_it(tmp_path, monkeypatch):
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    (tmp_path / "b.py").chmod(0o666)
    walk = os.walk

    def walk_and_remove(folder):
        for parent, folders, files in walk(folder):
            (tmp_path / "a.py").unlink()
            yield parent, folders, sorted(files)

    monkeypatch.setattr(os, "walk", walk_and_remove)
    found = secure_file_access.find_untrusted_folder_writer(tmp_path)
    assert found == UntrustedWriter(path=tmp_path / "b.py", owner=None)


@pytest.mark.parametrize("where", [".", "inner"])
def test_folders_of_modules_that_are_mounted_read_only_are_accepted(tmp_path, monkeypatch, where):
    """Containers often cannot change the mode of a volume."""
    plugins = tmp_path / "plugins"
    mount = plugins / where
    mount.mkdir(parents=True)
    mount.chmod(0o777)
    module = mount / "module.py"
    module.touch()
    module.chmod(0o666)

    class Mount:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "statvfs", lambda _: Mount)
    find = secure_file_access.find_untrusted_folder_writer
    assert find(plugins) == UntrustedWriter(path=mount, owner=None)
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == mount)
    assert find(plugins) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_of_a_module_is_found(tmp_path):
    module = tmp_path / "module.py"
    module.touch()
    os.chown(module, 4242, -1)
    found = secure_file_access.find_untrusted_folder_writer(tmp_path)
    assert found == UntrustedWriter(path=module, owner=4242)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("which", ["file", "folder", "link"])
def test_an_owner_other_than_this_user_and_root_is_found(config, tmp_path, which):
    link = tmp_path / "link.yaml"
    link.symlink_to(config)
    path = {"file": config, "folder": config.parent, "link": link}[which]
    os.chown(path, 4242, -1, follow_symlinks=False)
    expected = UntrustedWriter(path=path, owner=4242)
    assert find_writer(link if which == "link" else config) == expected


def test_files_of_root_are_accepted_by_every_user(config, monkeypatch):
    if config.stat().st_uid == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        assert find_writer(config) is None


def test_what_is_mounted_read_only_is_accepted_as_kubernetes_mounts_config_maps(
    config, monkeypatch
):
    """Also the files of a user of the host in such a folder."""
    config.parent.chmod(0o777)
    if os.geteuid() == 0:
        os.chown(config, 4242, -1)

    class Mount:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "statvfs", lambda _: Mount)
    assert find_writer(config) is not None, "the file system is mounted elsewhere"
    monkeypatch.setattr(os.path, "ismount", lambda path: path == config.parent)
    assert find_writer(config) is None
    Mount.f_flag = 0
    assert find_writer(config) is not None


def test_a_writable_volume_below_a_read_only_root_is_checked(config, monkeypatch):
    class Mount:
        def __init__(self, path):
            self.f_flag = 0 if Path(path) == config.parent else os.ST_RDONLY

    mounts = (config.parent, config.parent.parent)
    monkeypatch.setattr(os, "statvfs", Mount)
    monkeypatch.setattr(os.path, "ismount", lambda path: path in mounts)
    config.parent.chmod(0o777)
    assert find_writer(config) == UntrustedWriter(path=config.parent, owner=None)


def test_a_pipe_of_a_shell_is_accepted():
    reading, writing = os.pipe()
    try:
        assert find_writer(Path(f"/dev/fd/{reading}")) is None
    finally:
        os.close(reading)
        os.close(writing)


MB = 1 << 20


def test_a_file_is_read_whole(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"\xff" * MB)
    assert secure_file_access.read_file_with_limit(file, max_bytes=MB) == b"\xff" * MB
    assert (
        secure_file_access.read_file_with_limit(file, max_bytes=MB, regular_only=True)
        == b"\xff" * MB
    )


@pytest.mark.parametrize("regular", [False, True])
def test_what_is_too_large_is_not_read_to_its_end(tmp_path, regular):
    file = tmp_path / "large"
    with file.open("wb") as large:
        large.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 2 MiB"):
        secure_file_access.read_file_with_limit(file, max_bytes=2 * MB, regular_only=regular)


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "."])
def test_what_may_never_end_is_not_read_where_only_files_will_do(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        secure_file_access.read_file_with_limit(tmp_path / name, max_bytes=MB, regular_only=True)


def test_shells_hand_over_pipes_as_files():
    reading, writing = os.pipe()
    os.write(writing, b"said")
    os.close(writing)
    try:
        assert (
            secure_file_access.read_file_with_limit(Path(f"/dev/fd/{reading}"), max_bytes=MB)
            == b"said"
        )
    finally:
        os.close(reading)


@pytest.mark.parametrize("target", ["pipe", "/dev/zero"])
def test_other_pipes_and_devices_are_refused_at_once(tmp_path, target):
    os.mkfifo(tmp_path / "pipe")
    link = tmp_path / "link"
    link.symlink_to(target)
    for read in (
        secure_file_access.read_file_with_limit,
        secure_file_access.read_file_and_find_untrusted_writer,
    ):
        with pytest.raises(OSError, match="not a regular file"):
            read(link, max_bytes=MB)


def test_a_folder_and_nothing_are_told_apart(tmp_path):
    with pytest.raises(IsADirectoryError):
        secure_file_access.read_file_with_limit(tmp_path, max_bytes=MB)
    with pytest.raises(FileNotFoundError):
        secure_file_access.read_file_with_limit(tmp_path / "nothing", max_bytes=MB)


NAMELESS = 54_321
"""No system has a name for it."""


def test_the_folder_follows_the_environment():
    assert secure_file_access.find_user_cache_directory(
        {"MM2_CACHE": "/c", "XDG_CACHE_HOME": "/x"}
    ) == Path("/c")
    assert secure_file_access.find_user_cache_directory({"XDG_CACHE_HOME": "/x"}) == Path("/x/mm2")
    assert (
        secure_file_access.find_user_cache_directory({"MM2_CACHE": ""})
        == Path.home() / ".cache" / "mm2"
    )


@pytest.fixture
def home(monkeypatch, tmp_path):
    """What a user without a home is given."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: NAMELESS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"mm2-home-{os.geteuid()}"


def test_a_user_without_a_home_has_a_folder_all_the_same(home):
    assert secure_file_access.find_user_cache_directory({}) == home / ".cache" / "mm2"
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_others_can_enter_is_not_used(home):
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    with pytest.raises(DirectoryNotPrivateError, match="chmod 700"):
        secure_file_access.find_user_cache_directory({})
