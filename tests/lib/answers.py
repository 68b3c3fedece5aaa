"""What answers are like."""

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError


def refusal(call: Callable[..., Any], **arguments: Any) -> tuple[int, str]:
    """Status and S3 error code with which a boto3 call is refused."""
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    raise AssertionError(f"{call.__name__}({arguments}) is not refused")


def outcome(call: Callable[..., Any], **arguments: Any) -> int:
    """Status of a boto3 call, refused or not."""
    try:
        return status(call(**arguments))
    except ClientError as error:
        return status(error.response)


def headers(answer: Any) -> dict[str, str]:
    """Headers of a boto3 answer, names in lower case."""
    found: dict[str, str] = answer["ResponseMetadata"]["HTTPHeaders"]
    return found


def error_headers(call: Callable[..., Any], **arguments: Any) -> dict[str, str]:
    """Headers of a refusal."""
    try:
        call(**arguments)
    except ClientError as error:
        return headers(error.response)
    raise AssertionError(f"{call.__name__}({arguments}) is not refused")


def status(answer: Any) -> int:
    """Status of a boto3 answer."""
    code: int = answer["ResponseMetadata"]["HTTPStatusCode"]
    return code
