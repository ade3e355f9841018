"""paramiko: `true` over a kept connection; prints how long each took, in seconds. Arguments: port, key, count."""

import sys
import time

import paramiko


def main(port: int, key: str, count: int) -> None:
    """Connect once, run many times."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect("127.0.0.1", port, username="root", key_filename=key, look_for_keys=False, allow_agent=False)
    for _ in range(count):
        began = time.perf_counter()
        _, output, _ = client.exec_command("true")
        output.channel.recv_exit_status()
        print(time.perf_counter() - began)
    client.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
