"""What a log needs from an object store, of each kind of store; and of which none is taken."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from frontier_harness import buckets
from frontier_harness.buckets import Fault, FaultyBucket, MemoryBucket
from structlog.testing import capture_logs

from frontier_server.replicated.buckets import (
    RACERS,
    RACES,
    Bucket,
    BucketFailed,
    BucketUnusable,
    open_bucket,
    probe,
)

bucket, s3, s3_server = buckets.bucket, buckets.s3, buckets.s3_server


def names(sees: Bucket, prefix: str, after: str = "") -> list[str]:
    return [found.name for found in sees.found(prefix, after)]


def test_an_object_is_created_once(bucket: Bucket) -> None:
    assert bucket.create("a/1", b"first")
    assert not bucket.create("a/1", b"second")
    assert not bucket.create("a/1", b"first")
    assert bucket.get("a/1") == b"first"
    bucket.put("a/1", b"third")
    assert bucket.get("a/1") == b"third"
    bucket.delete(["a/1"])
    assert bucket.get("a/1") is None
    assert bucket.create("a/1", b"")
    assert bucket.get("a/1") == b""


def test_one_of_several_that_create_an_object_at_the_same_time_has_made_it(bucket: Bucket) -> None:
    with ThreadPoolExecutor(4) as threads:
        for number in range(20):
            datas = [b"%d" % each * 1000 for each in range(4)]
            made = list(threads.map(lambda data, name=f"a/{number}": bucket.create(name, data), datas))
            assert made.count(True) == 1
            assert bucket.get(f"a/{number}") == datas[made.index(True)]


def test_a_list_has_the_objects_below_a_prefix_in_order(bucket: Bucket) -> None:
    assert names(bucket, "a/") == []
    for name in ("a/3", "a/1", "ab/1", "a/2", "a/b/1", "b/1"):
        bucket.put(name, name.encode())
    assert names(bucket, "a/") == ["a/1", "a/2", "a/3", "a/b/1"]
    assert names(bucket, "a/", "a/2") == ["a/3", "a/b/1"]
    assert names(bucket, "a/", "a/9") == ["a/b/1"]
    assert [found.size for found in bucket.found("ab/")] == [4]


def test_a_list_has_another_tag_for_an_object_after_each_change(bucket: Bucket) -> None:
    tags = []
    for data in (b"one", b"two", b"three"):
        bucket.put("a/1", data)
        tags += [found.tag for found in bucket.found("a/")]
    assert len(set(tags)) == 3
    assert [found.tag for found in bucket.found("a/")] == tags[2:]


def test_a_list_is_whole_however_long_it_is(bucket: Bucket) -> None:
    """S3 gives a thousand at a time, and deletes as many."""
    expected = [f"a/{number:05d}" for number in range(1_100)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: bucket.put(name, b""), expected))
    assert names(bucket, "a/") == expected
    bucket.delete([*expected[1:], "a/none"])
    assert names(bucket, "a/") == expected[:1]


def test_objects_that_are_not_there_can_be_deleted(bucket: Bucket) -> None:
    bucket.delete([])
    bucket.delete(["a/1", "a/2"])
    bucket.put("a/2", b"")
    bucket.delete(["a/1", "a/2", "a/3"])
    assert names(bucket, "a/") == []


def test_a_file_is_the_same_after_an_upload_and_a_download(bucket: Bucket, tmp_path: Path) -> None:
    above, below = tmp_path / "above", tmp_path / "below"
    for data in (b"", b"abc" * 4_000_000):
        above.write_bytes(data)
        bucket.upload("files/1", above)
        assert bucket.download("files/1", below)
        assert below.read_bytes() == data
    assert not bucket.download("files/2", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_download_to_a_directory_that_is_not_there_fails(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("files/1", b"data")
    with pytest.raises((BucketFailed, FileNotFoundError)):
        bucket.download("files/1", tmp_path / "no directory" / "file")


def test_a_store_of_each_kind_passes_the_probe_and_keeps_nothing_of_it(bucket: Bucket) -> None:
    probe(bucket)
    assert names(bucket, "probe/") == []


# A directory.


def test_an_object_that_a_directory_could_not_sync_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that was not written to the disk is not found when the request is repeated."""
    sees = open_bucket(f"file://{tmp_path}/bucket")
    assert sees.create("log/1", b"1")
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(BucketFailed, match="Input/output error"):
        sees.create("log/2", b"2")
    assert sees.get("log/2") is None
    assert names(sees, "log/") == ["log/1"]
    monkeypatch.setattr(os, "fsync", fsync)
    assert sees.create("log/2", b"2")
    assert names(sees, "log/") == ["log/1", "log/2"]


def test_an_object_of_a_directory_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut could leave a name without its bytes: a record that is damaged."""
    sees = open_bucket(f"file://{tmp_path}/bucket")
    fsync, seen = os.fsync, list[tuple[bool, bool]]()
    path = tmp_path / "bucket" / "log" / "1"

    def watched(descriptor: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    sees.create("log/1", b"1")
    assert seen == [(False, False), (True, True), (True, True)], "the file, then its directories"


def test_a_list_leaves_out_files_that_a_process_left_half_written(tmp_path: Path) -> None:
    sees = open_bucket(f"file://{tmp_path}/bucket")
    sees.create("log/1", b"1")
    (tmp_path / "bucket" / "log" / "2#17").write_bytes(b"")
    assert names(sees, "log/") == ["log/1"]


# Stores that cannot keep a log.


class Forgetful(MemoryBucket):
    """Creates objects whether they are there or not."""

    def create(self, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True


class Refusing(MemoryBucket):
    """Creates nothing."""

    def create(self, name: str, data: bytes) -> bool:
        return False


class Late(MemoryBucket):
    """Shows none of its objects."""

    def get(self, name: str) -> bytes | None:
        return None


def lagging() -> Bucket:
    return MemoryBucket(lag_s=1.0)


class Looking(MemoryBucket):
    """Looks whether an object is there, and creates it a moment later, when all who race have looked; only in
    the first so many races."""

    def __init__(self, races: int = RACES) -> None:
        super().__init__()
        self._looked = Barrier(RACERS)
        self._races = races

    def create(self, name: str, data: bytes) -> bool:
        _, _, race = name.partition("-")
        if not race or int(race) >= self._races:
            return super().create(name, data)
        is_new = self.get(name) is None
        self._looked.wait(10)
        if is_new:
            self.put(name, data)
        return is_new


class Overwriting(MemoryBucket):
    """Writes what it refuses, too."""

    def create(self, name: str, data: bytes) -> bool:
        is_new = super().create(name, data)
        if "-" in name and not is_new:
            self.put(name, data)
        return is_new


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Forgetful, "must refuse to create an object that is there .* it created one twice"),
        (Refusing, "must refuse to create an object that is there .* it refused a new one"),
        (Late, "must show at once what was created"),
        (lagging, "must show at once what was created"),
        (Looking, "must let one alone create an object .* at the same time, .* it let 4 .24 of 24 times"),
        (partial(Looking, RACES // 4), "must let one alone create an object .* it let 4 .6 of 24 times"),
        (Overwriting, "must keep the object of whoever has created it"),
    ],
)
def test_a_store_that_cannot_keep_a_log_is_refused(made: Callable[[], Bucket], said: str) -> None:
    with pytest.raises(BucketUnusable, match=said):
        probe(made())


def test_a_store_that_lets_several_create_an_object_is_refused_however_slow_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One race takes longer than all may."""
    monkeypatch.setattr("frontier_server.replicated.buckets.RACES_S", 0.0)
    with pytest.raises(BucketUnusable, match=r"it let 4 \(12 of 24 times\)"):
        probe(Looking(RACES // 2))


@pytest.mark.parametrize("lost", [1, RACES // 4 - 1])
def test_a_store_that_seldom_lets_several_create_an_object_is_used_with_a_warning(lost: int) -> None:
    """Like moto on a busy machine."""
    with capture_logs() as lines:
        probe(Looking(lost))
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("bucket_lets_two_create", "warning")
    assert (line["lost"], line["races"]) == (lost, RACES)


def test_a_store_that_does_not_answer_the_probe_fails_and_is_not_refused() -> None:
    memory = MemoryBucket()
    memory.is_full = True
    with pytest.raises(BucketFailed):
        probe(memory)


def test_a_store_to_which_a_request_was_sent_twice_passes_the_probe() -> None:
    """The answer to the first one was lost on the way, and the library has asked again."""
    sees = FaultyBucket(MemoryBucket())
    sees.at("create", Fault.REPEATED)
    probe(sees)


def test_a_store_that_is_not_reached_fails_in_a_sentence_without_credentials(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hidden-token")
    monkeypatch.setattr("frontier_server.replicated.buckets.RETRY_S", 0.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    sees = open_bucket(s3)
    requests: Sequence[Callable[[], object]] = (
        lambda: sees.create("a", b""),
        lambda: sees.get("a"),
        lambda: list(sees.found("a/")),
        lambda: sees.delete(["a"]),
    )
    for request in requests:
        with pytest.raises(BucketFailed) as failed:
            request()
        assert str(failed.value).startswith(f"{s3}: ")
        assert "\n" not in str(failed.value) and "hidden" not in str(failed.value)


def test_a_bucket_that_is_not_there_fails_and_does_not_seem_empty(s3: str) -> None:
    sees = open_bucket("s3://another/prefix")
    with pytest.raises(BucketFailed, match="s3://another/prefix: "):
        list(sees.found("log/"))
    with pytest.raises(BucketFailed):
        sees.create("log/1", b"")


# URLs.


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "must begin with one of s3://, gs://, az://, file://, got ''"),
        ("/data/log", "must begin with one of s3://, gs://, az://, file://, got '/data/log'"),
        (
            "http://host/bucket",
            "must begin with one of s3://, gs://, az://, file://, got 'http://host/bucket'",
        ),
        ("s3://", "must name a bucket, such as s3://bucket/prefix, got 's3://'"),
        ("gs:///prefix", "must name a bucket, such as gs://bucket/prefix, got 'gs:///prefix'"),
        ("file://data/log", "must name a directory as file:///DIRECTORY, got 'file://data/log'"),
        ("file:data", "must name a directory as file:///DIRECTORY, got 'file:data'"),
        ("file:///", "must name a directory as file:///DIRECTORY, got 'file:///'"),
        ("s3://bucket/prefix?region=x", "must be a bucket and a prefix alone"),
        ("s3://bucket/prefix#part", "must be a bucket and a prefix alone"),
        ("s3://[bucket/prefix", "must be a URL such as s3://bucket/prefix"),
    ],
)
def test_a_url_of_no_bucket_is_refused_with_what_would_be_right(url: str, said: str) -> None:
    with pytest.raises(BucketUnusable) as refused:
        open_bucket(url)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "url",
    [
        "s3://hidden:hidden@bucket/prefix",
        "s3://hidden@bucket",
        "http://hidden:hidden@host/bucket",
        "hidden:hidden@bucket/prefix",
        "s3://bucket/prefix?X-Amz-Signature=hidden",
        "http://host/bucket?sig=hidden",
        "file://hidden:hidden@/data",
    ],
)
def test_a_credential_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BucketUnusable) as refused:
        open_bucket(url)
    assert "hidden" not in str(refused.value)
    assert "credentials go in the usual variables" in str(refused.value)


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_a_slash_at_the_end_of_a_url_means_nothing(end: str, tmp_path: Path) -> None:
    sees = open_bucket(f"file://{tmp_path}/bucket{end}")
    assert sees.url == f"file://{tmp_path}/bucket"
    sees.put("a", b"")
    assert (tmp_path / "bucket" / "a").exists()
