"""Top-level await: one event loop, which lives as long as the worker.

It runs only while a job awaits; tasks that a job leaves go on at the next
await. An interrupt raises in the code that runs if that is the job's own, else
it cancels the job's task from within the loop: a task of an earlier job is
never hit. The CancelledError that then comes out is a KeyboardInterrupt.

asyncio is imported where it is used: this module may be loaded from the middle
of asyncio's own import, by the hook that calls `connect`.
"""

from _thread import get_ident

from . import interrupts, streams
from .interrupts import breakable, modules

COROUTINES = 0x380  # flags of code: coroutine, that of a generator, asynchronous generator

loop = None
task = None  # of the running job
cancelled = False  # by an interrupt
all_tasks = current_task = running_loop = None  # asyncio's own, whatever user code puts in their place


def persistent():
    """Returns the loop, a new one if user code closed it."""
    global loop
    import asyncio
    if loop is None or loop.is_closed():
        shadow = modules.get("asyncio")
        modules["asyncio"] = asyncio  # it looks for itself there
        try:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
        finally:
            modules["asyncio"] = shadow
        streams.pending_tasks = pending
    return loop


def pending():
    """Counts the tasks that have not ended. Loop and tasks may be of classes of the user's."""
    try:
        return 0 if loop.is_closed() else len(all_tasks(loop))
    except BaseException:
        return 0


def run(coroutine):
    """Runs a coroutine of the job to its end."""
    global task, cancelled
    from asyncio.exceptions import CancelledError
    loop = persistent()
    task, cancelled = loop.create_task(coroutine), False
    try:
        if interrupts.take():
            cancel()
        while not task.done():
            try:
                drive(loop, task)
            except (CancelledError, KeyboardInterrupt):
                if not task.done():  # it was another task of the job: this one ends too
                    cancel()
        if task.cancelled() and cancelled:
            raise_interrupt(task)
        return task.result()
    finally:
        task = None


def drive(loop, task):
    """Runs the loop until the task is done."""
    loop.run_until_complete(task)


def raise_interrupt(task):
    """Shows a cancelled task as interrupted where it was cancelled."""
    try:
        task.result()
    except BaseException as error:  # the CancelledError
        raise KeyboardInterrupt().with_traceback(error.__traceback__) from None


def cancel():
    """Cancels the job's task from within the loop."""
    global cancelled
    cancelled = True
    loop.call_soon_threadsafe(task.cancel)


def interrupt(frame):
    """What an interrupt does while the loop runs. True: raise, for the job's own code is what runs.

    A task is current also while the loop wakes it and notes its end. What is raised there leaves it half done, and the
    order to stop the loop lies in wait for the next job."""
    if (current_task(loop) is not None and streams.carried.get(None) is streams.running
            and in_coroutine(frame)):
        return True
    cancel()


def in_coroutine(frame):
    """Reports whether a coroutine runs below the frame and above drive."""
    while frame is not None and frame.f_code is not drive.__code__:
        if frame.f_code.co_flags & COROUTINES:
            return True
        frame = frame.f_back
    return False


def postpone(frame):
    """Has a loop that user code runs itself raise the interrupt between two of its callbacks, if it is at work.

    What is raised while it takes a callback out of its queue loses that: the task that it wakes would never end, and
    asyncio.run waits for it. What is raised while it starts or stops leaves it neither running nor not."""
    base = modules.get("asyncio.base_events")
    try:
        running, forever = running_loop(), base.BaseEventLoop.run_forever.__code__
    except (AttributeError, TypeError):  # in the middle of its import
        return False
    while frame.f_code is not forever:
        if frame.f_code.co_flags & COROUTINES or frame.f_back is None:
            return False
        frame = frame.f_back
    if running is not None:
        running.call_soon_threadsafe(strike, streams.running)
    return True


def strike(job):
    """Raises the interrupt that was postponed, if it is not too late."""
    if streams.running is job and not interrupts.hit:
        interrupts.asked = True
        interrupts.struck()
        raise KeyboardInterrupt


def connect(module):
    """Lets create_task, outside of a running loop, leave a task to ours."""
    global all_tasks, current_task, running_loop
    all_tasks, current_task, running_loop = module.all_tasks, module.current_task, module.events._get_running_loop
    create_task = module.create_task

    def either(coro, **options):
        try:
            return create_task(coro, **options)
        except RuntimeError:
            if get_ident() != interrupts.main or running_loop() is not None:
                raise
            return persistent().create_task(coro, **options)

    either.__name__ = either.__qualname__ = "create_task"
    either.__module__, either.__doc__ = create_task.__module__, create_task.__doc__
    module.create_task = breakable(either)


breakable(drive, interrupt)
breakable(strike)
