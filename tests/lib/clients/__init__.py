"""The clients under test, each behind the same few verbs."""

from lib.clients.aws import AwsCli
from lib.clients.base import Client, Refused
from lib.clients.boto import Boto3
from lib.clients.crt import AwsCrt
from lib.clients.curl import Curl
from lib.clients.rclone import Rclone
from lib.clients.s3cmd import S3cmd

CLIENTS: dict[str, type[Client]] = {client.name: client for client in (Boto3, AwsCli, S3cmd, Rclone, AwsCrt, Curl)}

__all__ = ["CLIENTS", "Client", "Refused"]
