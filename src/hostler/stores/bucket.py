"""A store in a bucket that speaks S3: Amazon's, MinIO, Ceph, Garage, R2 and others (extra `s3`, boto3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hostler.model.errors import FilesError, LinkError, LinkLost, LinkRefused, UsageError
from hostler.stores import hashing
from hostler.stores.base import LABEL, LABEL_MAX, PIECE, QUARANTINE, Damaged, Listed, Missing, ObjectName, Pace, at_once

GONE = frozenset({"404", "NoSuchKey", "NotFound"})
MULTIPART_BYTES = 64 << 20
TIMEOUT_S = 60.0
TRIES = 4


class BucketStore:
    """Objects below `prefix` in a bucket.

    Credentials are boto3's own affair: its environment variables, its files, the machine's role; `profile` names one
    of a file. `endpoint` is the address of what is not Amazon's.
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        endpoint: str | None = None,
        region: str | None = None,
        profile: str | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._where = f"in s3://{bucket}/{self._prefix}"
        self._s3 = _client(endpoint, region, profile)

    def put(self, name: ObjectName, source: Path, pace: Pace) -> None:
        """As `Store.put`: an object of S3 appears whole, under its name; one that is read back otherwise is deleted."""
        if self._holds(name, pace):
            return
        with hashing.opened(source) as file:
            for _ in hashing.own(name, source, file, at_once):
                pass
            file.seek(0)
            with hashing.arriving(self._where), self._speaking(name):
                self._s3.upload_fileobj(file, self._bucket, self._key(name), Callback=pace, Config=_transfer())
        try:
            with hashing.arriving(self._where):
                self.check(name, pace)
        except Damaged as error:
            self.delete(name)
            raise FilesError(f"what was put there is not what is read, and was deleted again: {error}") from error

    def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
        """As `Store.get`."""
        content = self._read(name)  # before there is a file: what is not there leaves nothing
        with hashing.appearing(target) as out:
            for piece in hashing.checked(name, content, pace, self._where):
                out.write(piece)

    def check(self, name: ObjectName, pace: Pace) -> int:
        """As `Store.check`: what the bucket says of hashes is not taken for them."""
        return hashing.verified(name, self._read(name), pace, self._where)

    def listed(self) -> Iterator[Listed]:
        """As `Store.listed`."""
        with self._speaking():
            for page in self._s3.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=f"{self._prefix}objects/"
            ):
                for each in page.get("Contents", ()):
                    name = ObjectName.at(each["Key"].removeprefix(self._prefix))
                    if name is not None:
                        yield Listed(name, each["Size"])

    def delete(self, name: ObjectName) -> None:
        """As `Store.delete`; a bucket that keeps versions keeps them."""
        with suppress(Missing), self._speaking(name):  # some servers say that it is not there
            self._s3.delete_object(Bucket=self._bucket, Key=self._key(name))

    def set_aside(self, name: ObjectName) -> None:
        """As `Store.set_aside`."""
        aside = f"{self._prefix}{QUARANTINE}/{name.sha256}{name.suffix}"
        with suppress(Missing), self._speaking(name):
            self._s3.copy({"Bucket": self._bucket, "Key": self._key(name)}, self._bucket, aside)
            self._s3.delete_object(Bucket=self._bucket, Key=self._key(name))

    def free_bytes(self) -> int | None:
        """A bucket does not say."""
        return None

    def read_label(self) -> str | None:
        """As `Store.read_label`."""
        with self._speaking(), suppress(self._s3.exceptions.NoSuchKey):
            body = self._s3.get_object(Bucket=self._bucket, Key=f"{self._prefix}{LABEL}")["Body"]
            said: bytes = body.read(LABEL_MAX)
            return said.decode(errors="replace")
        return None

    def write_label(self, text: str) -> None:
        """As `Store.write_label`."""
        with self._speaking():
            self._s3.put_object(Bucket=self._bucket, Key=f"{self._prefix}{LABEL}", Body=text.encode())

    def _key(self, name: ObjectName) -> str:
        return f"{self._prefix}{name.path}"

    def _holds(self, name: ObjectName, pace: Pace) -> bool:
        try:
            self.check(name, pace)
        except (Missing, Damaged):
            return False
        return True

    def _read(self, name: ObjectName) -> Iterator[bytes]:
        with self._speaking(name):
            body = self._s3.get_object(Bucket=self._bucket, Key=self._key(name))["Body"]
        return self._pieces(name, body)

    def _pieces(self, name: ObjectName, body: Any) -> Iterator[bytes]:
        with self._speaking(name):
            try:
                yield from body.iter_chunks(PIECE)
            finally:
                body.close()

    @contextmanager
    def _speaking(self, name: ObjectName | None = None) -> Iterator[None]:
        """Errors of boto3 as ours: what cannot be reached is not what says no, and neither is not there."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError, ConnectionError as NoConnection, HTTPClientError

        try:
            yield
        except ClientError as error:
            raise self._refused(error, name) from error
        except (HTTPClientError, NoConnection) as error:
            raise LinkLost(f"the store {self._where} does not answer: {error}") from error
        except (BotoCoreError, Boto3Error) as error:
            raise LinkRefused(f"the store {self._where} cannot be used: {error}") from error

    def _refused(self, error: Any, name: ObjectName | None) -> LinkError | FilesError:
        code, status = error.response["Error"].get("Code", ""), error.response["ResponseMetadata"]["HTTPStatusCode"]
        if name is not None and code in GONE:
            return Missing(f"{name.path} is not {self._where}")
        if status >= 500 or code in {"SlowDown", "RequestTimeout"}:
            return LinkLost(f"the store {self._where} is in trouble: {error}")
        return LinkRefused(
            f"the store {self._where} says no: {error}; see to its name, its endpoint and the credentials"
        )


def _client(endpoint: str | None, region: str | None, profile: str | None) -> Any:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise UsageError("stores in buckets need boto3: pip install 'hostler[s3]'") from error
    config = Config(
        connect_timeout=TIMEOUT_S,
        read_timeout=TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": TRIES},
        # Hashes are our own affair, and not every server knows the newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        session = boto3.session.Session(profile_name=profile, region_name=region)
        return session.client("s3", endpoint_url=endpoint, config=config)
    except (BotoCoreError, ValueError) as error:
        raise UsageError(f"no client for S3 can be made: {error}") from error


def _transfer() -> Any:
    from boto3.s3.transfer import TransferConfig

    return TransferConfig(multipart_threshold=MULTIPART_BYTES, max_concurrency=4)
