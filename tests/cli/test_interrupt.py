from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from planbench.cli.interrupt import Interrupt, leave


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_cancels_and_gives_the_code_that_shells_expect(number, code):
    before = signal.getsignal(number)

    async def main():
        stopped = asyncio.Event()
        with Interrupt(stopped.set) as interrupt:
            assert interrupt.code is None
            os.kill(os.getpid(), number)
            await asyncio.wait_for(stopped.wait(), 5)
        return interrupt.code

    assert asyncio.run(main()) == code
    assert signal.getsignal(number) is before


def test_a_second_signal_ends_a_process_whose_tool_does_not_stop():
    program = (
        "import asyncio, time\n"
        "from planbench.cli.interrupt import Interrupt\n"
        "async def main():\n"
        "    with Interrupt(lambda: None):\n"
        "        print('ready', flush=True)\n"
        "        while True: time.sleep(0.05)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.wait(10)

    assert process.returncode in {130, 143}


def test_nothing_stuck_gives_the_code_back():
    assert leave(7) == 7


def test_a_tool_stuck_in_a_thread_does_not_keep_the_process():
    program = (
        "import sys, threading\n"
        "from planbench.cli.interrupt import leave\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "print('said before', flush=False)\n"
        "sys.exit(leave(1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )

    assert done.returncode == 1
    assert done.stdout == "said before\n"
    assert "a tool is still running in a thread" in done.stderr
