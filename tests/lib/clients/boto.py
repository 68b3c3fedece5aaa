"""boto3."""

import io
from collections.abc import Sequence
from pathlib import Path

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from lib.clients.base import PART_BYTES, Client, Refused
from lib.gateway import Gateway


class Boto3(Client):
    """The AWS SDK for Python, with its defaults (checksums included)."""

    name = "boto3"
    abilities = frozenset({"range", "multipart", "copy", "tag", "presign_get", "presign_put", "put_if_absent"})

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        super().__init__(gateway, folder)
        self.s3 = gateway.s3()

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.s3.put_object(Bucket=bucket, Key=key, Body=data)

    def get(self, bucket: str, key: str) -> bytes:
        return self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()

    def exists(self, bucket: str, key: str) -> bool:
        try:
            self.s3.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return False
            raise
        return True

    def list(self, bucket: str, prefix: str = "") -> Sequence[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def delete(self, bucket: str, key: str) -> None:
        self.s3.delete_object(Bucket=bucket, Key=key)

    def copy(self, bucket: str, source: str, target: str) -> None:
        self.s3.copy_object(Bucket=bucket, Key=target, CopySource={"Bucket": bucket, "Key": source})

    def range(self, bucket: str, key: str, spec: str) -> bytes:
        try:
            return self.s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={spec}")["Body"].read()
        except ClientError as error:
            raise Refused(str(error)) from error

    def multipart(self, bucket: str, key: str, data: bytes) -> None:
        config = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
        self.s3.upload_fileobj(io.BytesIO(data), bucket, key, Config=config)

    def tag(self, bucket: str, key: str, tags: dict[str, str]) -> None:
        pairs = [{"Key": name, "Value": value} for name, value in tags.items()]
        self.s3.put_object_tagging(Bucket=bucket, Key=key, Tagging={"TagSet": pairs})

    def tags(self, bucket: str, key: str) -> dict[str, str]:
        pairs = self.s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        return {pair["Key"]: pair["Value"] for pair in pairs}

    def presign_get(self, bucket: str, key: str) -> str:
        return self._presign("get_object", bucket, key)

    def presign_put(self, bucket: str, key: str) -> str:
        return self._presign("put_object", bucket, key)

    def _presign(self, operation: str, bucket: str, key: str) -> str:
        s3 = self.gateway.s3(signature_version="s3v4")
        return s3.generate_presigned_url(operation, Params={"Bucket": bucket, "Key": key}, ExpiresIn=300)

    def put_if_absent(self, bucket: str, key: str, data: bytes) -> None:
        try:
            self.s3.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
        except ClientError as error:
            raise Refused(str(error)) from error
