"""Values too big for the journal, in an S3 bucket; the only module that knows boto3.

What is stored is sealed (`RecordedBlobs`), and is bytes to this module. A key is `<namespace>/<sha256>`: an object means the same for ever, so writing it
twice is harmless.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from sandbox.config import S3Location
from sandbox.journal.errors import PlatformFault, Unavailable
from sandbox.journal.ids import NamespaceId, Sha256

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

THREADS = 4
CONNECT_TIMEOUT_S = 2
READ_TIMEOUT_S = 10
ATTEMPTS_MAX = 2
CONTENT_TYPE = "application/octet-stream"

T = TypeVar("T")


class BlobLost(PlatformFault):
    """A value that a journal names is absent."""

    code = "blob_lost"


class BlobStore:
    """Calls run in a few threads of their own: boto3 blocks. Errors: Unavailable when S3 does not answer."""

    def __init__(self, location: S3Location) -> None:
        self._location = location
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blobs")
        self._making_client = threading.Lock()
        self._client: S3Client | None = None

    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None:
        await self._call(
            lambda s3: s3.put_object(
                Bucket=self._location.bucket,
                Key=_key(namespace, sha256),
                Body=data,
                ContentType=CONTENT_TYPE,
            )
        )

    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes:
        """Return what was put; BlobLost when there is nothing."""

        def fetch(s3: "S3Client") -> bytes:
            answer = s3.get_object(Bucket=self._location.bucket, Key=_key(namespace, sha256))
            return answer["Body"].read()

        data = await self._call(lambda s3: _unless_absent(lambda: fetch(s3)))
        if data is None:
            raise BlobLost(f"the object store has no value {sha256} of namespace {namespace}")
        return data

    async def delete(self, namespace: NamespaceId, sha256: Sha256) -> None:
        """Remove a value; one that is not there is no error."""
        await self._call(
            lambda s3: s3.delete_object(Bucket=self._location.bucket, Key=_key(namespace, sha256))
        )

    async def exists(self, namespace: NamespaceId, sha256: Sha256) -> bool:
        found = await self._call(
            lambda s3: _unless_absent(
                lambda: s3.head_object(Bucket=self._location.bucket, Key=_key(namespace, sha256))
            )
        )
        return found is not None

    def ensure_bucket(self) -> None:
        """Make the bucket when it is not there. Blocks: for set-up, not for a running event loop."""
        if not self.has_bucket():
            self._attempt(lambda s3: s3.create_bucket(Bucket=self._location.bucket))

    def has_bucket(self) -> bool:
        """Blocks, as `ensure_bucket`. Errors: Unavailable."""
        bucket = self._location.bucket
        return self._attempt(lambda s3: _unless_absent(lambda: s3.head_bucket(Bucket=bucket))) is not None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, work: Callable[["S3Client"], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._attempt, work)

    def _attempt(self, work: Callable[["S3Client"], T]) -> T:
        # boto3 is loaded by the first call, in its thread: it takes 0.3 s of every start, and most runs never
        # have a value that big.
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return work(self._connect())
        except (BotoCoreError, ClientError) as error:
            raise Unavailable(f"the object store failed: {error}") from error

    def _connect(self) -> "S3Client":
        # See _attempt.
        import boto3
        from botocore.config import Config

        with self._making_client:
            if self._client is None:
                where = self._location
                self._client = boto3.client(
                    "s3",
                    endpoint_url=where.endpoint,
                    aws_access_key_id=where.access_key,
                    aws_secret_access_key=where.secret_key,
                    region_name=where.region,
                    config=Config(
                        connect_timeout=CONNECT_TIMEOUT_S,
                        read_timeout=READ_TIMEOUT_S,
                        max_pool_connections=THREADS,
                        retries={"total_max_attempts": ATTEMPTS_MAX, "mode": "standard"},
                        s3={"addressing_style": "path"} if where.endpoint else None,
                    ),
                )
            return self._client


def _key(namespace: NamespaceId, sha256: Sha256) -> str:
    return f"{namespace}/{sha256}"


def _unless_absent(ask: Callable[[], T]) -> T | None:
    """Return the answer, or None when S3 says that there is no such object or bucket."""
    # See BlobStore._attempt.
    from botocore.exceptions import ClientError

    try:
        return ask()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}:
            return None
        raise
