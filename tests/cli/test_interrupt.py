from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from planbench.cli.interrupt import Interrupt


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_cancels_and_gives_the_code_that_shells_expect(number, code):
    before = signal.getsignal(number)

    async def main():
        stopped = asyncio.Event()
        with Interrupt(stopped.set) as interrupt:
            assert interrupt.code is None
            os.kill(os.getpid(), number)
            await asyncio.wait_for(stopped.wait(), 60)
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
        process.wait(60)

    assert process.returncode in {130, 143}


def test_the_code_is_given_back_where_nothing_is_left():
    # in a process of its own: threads of other tests would be cut off with this one
    program = "from planbench.cli.interrupt import leave; print(leave(1), leave(130))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "1 130\n", done.stderr


@pytest.mark.parametrize(("code", "waits"), [(130, False), (1, True)])
def test_after_an_interrupt_no_thread_of_a_tool_is_waited_for(code, waits):
    program = (
        "import sys, threading, time\n"
        "from planbench.cli.interrupt import leave\n"
        "def work():\n"
        "    time.sleep(4)\n"
        "    print('the thread came to its end')\n"
        "threading.Thread(target=work).start()\n"
        f"sys.exit(leave({code}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == code
    assert ("came to its end" in done.stdout) is waits
    assert ("a tool left a thread running" in done.stderr) is not waits
