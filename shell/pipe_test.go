package shell_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A program that does not read its pipe takes what the pipe holds, and the error says how much.
func TestInputBeyondThePipeOfABusyProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startPiped("echo on; sleep 300")
	jobstest.Prints(t, j, "on")
	var err error
	for d := 50 * time.Millisecond; d < jobstest.Patience; d *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		_, err = j.Send(ctx, jobs.Input{Text: strings.Repeat("x", 1<<20)})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "only 0 of") { // a busy machine has not begun the write
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "only 65536 of 1048576 bytes were taken") {
		t.Errorf("error %v", err)
	}
	j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
	jobstest.End(t, j)
}

// A read of the pipe that is the standard input is a question, and input or the end of file answers
// it.
func TestQuestionsOnPipes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]question{
		"read":        {`printf 'Proceed? '; read -r a; echo "<$a>"`, "line", "Proceed? ", []jobs.Input{{Text: "y\n"}}, "<y>\n"},
		"on stderr":   {`printf 'Proceed? ' >&2; read -r a; echo "<$a>"`, "line", "Proceed? ", []jobs.Input{{Text: "y\n"}}, "<y>\n"},
		"two":         {`read -r a; read -r b; echo "<$a$b>"`, "line", "", []jobs.Input{{Text: "y\n"}, {Text: "z\n"}}, "<yz>\n"},
		"half a line": {`read -r a; echo "<$a>"`, "line", "", []jobs.Input{{Text: "y"}, {Text: "z\n"}}, "<yz>\n"},
		"eof":         {`cat; echo over`, "line", "", []jobs.Input{{EOF: true}}, "over\n"},
		"both":        {`cat; echo over`, "line", "", []jobs.Input{{Text: "half", EOF: true}}, "halfover\n"},
		"python":      {`python3 -c 'print(input("name? ")[::-1])'`, "line", "name? ", []jobs.Input{{Text: "abc\n"}}, "cba\n"},
		"a pipeline":  {`cat | sort`, "line", "", []jobs.Input{{Text: "b\na\n"}, {EOF: true}}, "a\nb\n"},
		"a poll": {`python3 -c 'import select, os; select.select([0], [], []); print(os.read(0, 9))'`,
			"line", "", []jobs.Input{{Text: "y"}}, "b'y'\n"},
		"beside a flood of output": {`while :; do echo y; done & read -r a; kill $!; wait; echo "<$a>"`,
			"line", anyPrompt, []jobs.Input{{Text: "z\n"}}, "<z>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.answer(t, newBench(t).startPiped)
		})
	}
}

// A write to a pipe that no program reads does not hold up the end of the job, even if a process
// that it left still has the pipe.
func TestWriteUnderWayDoesNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startPiped(`sleep 300 <&0 & echo on; until read -t 0; do :; done`) // it loops until input is buffered in the pipe
	jobstest.Prints(t, j, "on")
	_, err := j.Send(context.Background(), jobs.Input{Text: strings.Repeat("x", 1<<20)})
	if err == nil || !strings.HasSuffix(err.Error(), "of 1048576 bytes were taken, for the command has ended") {
		t.Errorf("error %v", err)
	}
	jobstest.End(t, j)
	j.Cleanup(t.Context(), jobs.Stop{By: jobs.Agent, From: jobs.Kill})
}

func TestInputToAClosedPipeIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startPiped(`exec 0<&-; echo on; sleep 300`)
	jobstest.Prints(t, j, "on")
	var err error
	for err == nil { // for a moment a process that is being started has a copy of the pipe
		_, err = j.Send(context.Background(), jobs.Input{Text: "x\n"})
	}
	if !strings.HasSuffix(err.Error(), "every program that could read it has closed it") {
		t.Errorf("error %v", err)
	}
}
