package progress

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/output"
)

// Lines as programs print them, and what they say.
func TestBarsOfPrograms(t *testing.T) {
	for _, tt := range []struct{ program, line, want string }{
		{"tqdm", ` 43%|████▎     | 4300/10000 [00:12<00:16, 350.12it/s]`, "43 %, 4300 of 10000, 350 it/s, 0:16 left"},
		{"tqdm", `inner:  67%|██████▋   | 201/300 [00:00<00:00, 1940.11it/s]`, "67 %, 201 of 300, 1940 it/s, 0:00 left"},
		{"tqdm, bytes", `  4%|▍         | 41.0M/1.02G [00:03<01:16, 13.8MB/s]`, "4 %, 41.0M of 1.02G, 13.8 MB/s, 1:16 left"},
		{"tqdm, ascii", ` 43%|####3     | 43/100 [00:12<1 day, 2:03:04,  1.20s/it, loss=0.31]`, "43 %, 43 of 100, 1.20 s/it, 26:03:04 left"},
		{"tqdm, at its start", `  0%|          | 0/10000 [00:00<?, ?it/s]`, "0 %, 0 of 10000"},
		{"tqdm, narrow", `train:  43% 4300/10000 [00:12<00:16, 350.12it/s]`, "43 %, 4300 of 10000, 350 it/s, 0:16 left"},
		{"tqdm, bytes of a model", `model.safetensors:  12%|█▏        | 115M/988M [00:02<00:18, 46.9MB/s]`, "12 %, 115M of 988M, 46.9 MB/s, 0:18 left"},
		{"tqdm without a total", `350it [00:01, 340.2it/s]`, "350 it, 340 it/s"},
		{"tqdm without a total, bytes", `41.0MB [00:03, 13.8MB/s]`, "41.0 MB, 13.8 MB/s"},
		{"rich", `Working... ━━━━━━━━━━━━━━━━╸━━━━━━━━  42% 0:00:07`, "42 %, 0:07 left"},
		{"rich, time unknown", `Working... ━━━━━━━━━━━━━━━━━━━━━━━━━━━   0% -:--:--`, "0 %"},
		{"rich, counts", `Files ━━━━━━━━╺━━━━━━━━━━━━━━━━━━ 12/40 0:01:07`, "30 %, 12 of 40, 1:07 left"},
		{"rich, other columns", `Files ━━━━━━━━╺━━━━━━━━━━━━━━━━━━ 12/40 a.txt`, "30 %, 12 of 40"},
		{"pip", `   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸━━ 12.3/13.1 MB 8.1 MB/s eta 0:00:01`, "93 %, 12.3 of 13.1 MB, 8.1 MB/s, 0:01 left"},
		{"pip, one package of several", `   ━━━━━━━━━━━━━━━━━━━━━━━━╺━━━━━━━━━━━━━━━ 3/5 [numpy]`, "60 %, 3 of 5"},
		{"pip, raw", `Progress 4194304 of 13107200`, "32 %, 4194304 of 13107200"},
		{"cargo", `    Building [=======>                 ] 112/321: serde, tokio`, "34 %, 112 of 321"},
		{"cargo, fetch", `       Fetch [==========>              ] 42.00%, 3.20MiB/s`, "42 %, 3.20 MiB/s"},
		{"wget", `x.iso               34%[=====>              ] 120.45M  11.2MB/s    eta 21s`, "34 %, 120.45M, 11.2 MB/s, 0:21 left"},
		{"wget, long", `x.iso                4%[>                   ]  20.11M   110KB/s    eta 1h 2m`, "4 %, 20.11M, 110 KB/s, 1:02:00 left"},
		{"wget, dots", `  1050K .......... .......... .......... .......... ..........  3% 5.60M 65s`, "3 %, 5.60 MB/s, 1:05 left"},
		{"wget without a total", `x.bin                   [    <=>             ]  20.11M  3.20MB/s`, "20.11M, 3.20 MB/s"},
		{"curl", ` 34 4096M   34 1400M    0     0  11.2M      0  0:06:05  0:02:05  0:04:00 12.1M`, "34 %, 1400M of 4096M, 12.1 MB/s, 4:00 left"},
		{"curl, upload", ` 50  200M    0     0   50  100M      0  11.2M  0:00:18  0:00:09  0:00:09 12.1M`, "50 %, 100M of 200M, 12.1 MB/s, 0:09 left"},
		{"curl without a total", `100 1400M    0 1400M    0     0  11.2M      0 --:--:--  0:02:05 --:--:-- 12.1M`, "1400M, 12.1 MB/s"},
		{"curl -#", `####################                                       34.2%`, "34.2 %"},
		{"apt", `Progress: [ 42%] [########............] `, "42 %"},
		{"apt, download", `42% [12 libfoo 1,234 kB/5,678 kB 22%]                1,234 kB/s 5s`, "42 %, 1,234 kB/s, 0:05 left"},
		{"dpkg", `(Reading database ... 45%`, "45 %"},
		{"docker", `a3ed95caeb02: Downloading [====>      ]  12.5MB/48.1MB`, "25 %, 12.5 MB of 48.1 MB"},
		{"docker build", `#5 sha256:a3ed95caeb02ffe68cdd9fd84406680ae93d633cb16422d00e8a7c22955b46d4 12.58MB / 48.10MB 1.2s`, "26 %, 12.58 MB of 48.10 MB"},
		{"git", `Receiving objects:  67% (8201/12240), 12.10 MiB | 4.05 MiB/s`, "67 %, 8201 of 12240, 4.05 MiB/s"},
		{"git, the other side", `remote: Compressing objects:  42% (5/12)`, "42 %, 5 of 12"},
		{"git, done", `Resolving deltas: 100% (12/12), done.`, "100 %, 12 of 12"},
		{"ninja", `[112/321] Building CXX object foo.o`, "34 %, 112 of 321"},
		{"yarn", `[1/4] Resolving packages...`, "25 %, 1 of 4"},
		{"cmake", `[ 42%] Building C object x.o`, "42 %"},
		{"cmake, done", `[100%] Built target x`, "100 %"},
		{"pytest", `tests/test_a.py ..........................                       [ 42%]`, "42 %"},
		{"pytest -q", `........................................................................ [  3%]`, "3 %"},
		{"pytest -v", `tests/test_a.py::test_x[1-a b] PASSED                            [ 42%]`, "42 %"},
		{"pytest -n", `[gw0] [ 42%] PASSED tests/test_a.py::test_x `, "42 %"},
		{"pytest, counts", `tests/test_a.py ....F.                                        [ 12/100]`, "12 %, 12 of 100"},
		{"keras", ` 312/1875 ━━━━━━━━━━━━━━━━━━━━ 4s 3ms/step - accuracy: 0.9132 - loss: 0.3101`, "16 %, 312 of 1875, 3 ms/step, 0:04 left"},
		{"keras, a minute", `  12/1875 ━━━━━━━━━━━━━━━━━━━━ 1:02 33ms/step - accuracy: 0.9132`, "0 %, 12 of 1875, 33 ms/step, 1:02 left"},
		{"keras 2", `312/1875 [===>..........................] - ETA: 4s - loss: 0.31 - acc: 0.91`, "16 %, 312 of 1875, 0:04 left"},
		{"uv", `⠙ Preparing packages... (4/12)`, "33 %, 4 of 12"},
		{"rsync", `  1,234,567  42%    1.17MB/s    0:00:12`, "42 %, 1,234,567, 1.17 MB/s, 0:12 left"},
		{"rsync, all files", `  1.23G  42%    1.17MB/s    0:00:12 (xfr#3, to-chk=10/20)`, "42 %, 1.23G, 1.17 MB/s, 0:12 left"},
		{"ffmpeg", `frame=  240 fps= 30 q=28.0 size=    1024kB time=00:00:08.00 bitrate=1048.6kbits/s speed=1.01x`, "240 frames, 30 frames/s"},
		{"ffmpeg, sound", `size=    1024kB time=00:00:08.00 bitrate=1048.6kbits/s speed=61.2x`, "1024 kB, 61.2x"},
	} {
		t.Run(tt.program, func(t *testing.T) {
			b, ok := Last("begin\n" + tt.line + "\nnot a bar\n")
			if got := b.String(); !ok || got != tt.want {
				t.Errorf("%s\nsays %q, want %q", tt.line, got, tt.want)
			}
		})
	}
}

func TestLinesThatAreNoBars(t *testing.T) {
	for _, line := range strings.Split(`
Released 11/21 with 40% more features
ok  	example.com/pkg	0.12s  coverage: 80.1% of statements
TOTAL                     1234     56    95%
/dev/sda1        252G  100G   40% /
GET /a/1/2 200 12ms
score 12/20
2026-11-21 10:12:13 loaded 12/20 files
[2026/11/21 10:12:13] listening
[11/21/2026] listening
[22/11] done
[21/11 10:12:13] done
src/a/1/b.go:12:3: 40% of the calls are wrong
accuracy: 0.91 (43%)
[info] 12/20 [60%] in all
[info] cache hits: 42% in 3s
| 42% in all (~5s) |
Mem:  42% used, 4.1G/16.0G
%Cpu(s): 12.5 us,  3.2 sy, 84.3 id
Battery: 100% [charging]
============================= 3 passed in 0.12s ==============================
tests/test_a.py:12: AssertionError: 42% is not 43%
━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
┏━━━━━━━━┳━━━━━━━┓
━━━━━━━━ Results ━━━━━━━━
#### 3. Coverage of 80.5%
| 43% | 12/20 | yes |
Progress has been made: 3 of 5 people agree
Receiving objects is 67% (8201/12240) of the time
+  12.34%  main  [.] hash_lookup
    12  1.2  0:00:12 python
https://example.com/50%25/1/2
100 200 300 400
frame=240
size=1024kB
width: 42%;
epoch 3/10
  34%
[1/2]
[3/2] Building more than there is
140%|████| 14/10 [00:12<00:16, 350.12it/s]
HTTP/1.1 200 OK
10 packets transmitted, 10 received, 0% packet loss, time 9012ms
Reading database
0a1b2c3d4e5f: Pull complete
`, "\n") {
		if b, ok := Last(line); ok {
			t.Errorf("%q is taken for a bar: %s", line, b)
		}
	}
}

// Only the last line that is a bar counts.
func TestLastBarCounts(t *testing.T) {
	b, ok := Last("[1/9] CC a.o\n[2/9] CC b.o\nb.c:1: warning: unused\n\n")
	if !ok || b.Done != 2 || b.Total != 9 {
		t.Errorf("%+v", b)
	}
	if b.percent != 22 {
		t.Errorf("%g %%", b.percent)
	}
	b, _ = Last("350it [00:01, 340.2it/s]")
	if b.percent >= 0 || b.Total != 0 || b.Left >= 0 {
		t.Errorf("without a total: %+v", b)
	}
}

// A bar of 10,000 updates on stderr, and lines on stdout: the last state counts, also if the tail
// begins inside a bar. Output of a job can end in its middle.
func TestTailOfALog(t *testing.T) {
	log := output.NewStore(output.Config{}).NewLog("x")
	t.Cleanup(log.Discard)
	if tail := TailOf(log, 0, time.Now()); tail.Line() != "" {
		t.Errorf("of an empty log: %q", tail.Line())
	}
	for i := range 10_000 {
		fmt.Fprintf(writer{log, output.Stderr}, "\r\x1b[32m%3d%%\x1b[0m|████▎     | %d/10000 [00:12<00:16, 350.12it/s]", i/100, i)
	}
	log.Write(output.Stdout, []byte("loading\n\n"))
	tail := TailOf(log, 0, time.Now())
	if b, ok := tail.Bar(); !ok || b.String() != "99 %, 9999 of 10000, 350 it/s, 0:16 left" || tail.Line() != "loading" {
		t.Errorf("got %q and %q", b, tail.Line())
	}
	log.Write(output.Stdout, []byte(strings.Repeat("line\n", 1000)))
	if b, ok := TailOf(log, 0, time.Now()).Bar(); ok {
		t.Errorf("a bar that is long gone: %s", b)
	}
}

// A writer writes one stream of a log.
type writer struct {
	log    output.Log
	stream output.Stream
}

func (w writer) Write(b []byte) (int, error) {
	w.log.Write(w.stream, b)
	return len(b), nil
}

func TestBarAsJSON(t *testing.T) {
	for line, want := range map[string]string{
		"[112/321] Building CXX object foo.o":              `{"text":"34 %, 112 of 321","percent":34}`,
		"  0%|          | 0/100 [00:00<00:00, 350.12it/s]": `{"text":"0 %, 0 of 100, 350 it/s, 0:00 left","percent":0,"left_seconds":0}`,
		"350it [00:01, 340.2it/s]":                         `{"text":"350 it, 340 it/s"}`,
		"Working... ━━━━━━━━━━━━━━━━╸━━━━━━━━  42% 0:00:07": `{"text":"42 %, 0:07 left","percent":42,"left_seconds":7}`,
	} {
		b, _ := Last(line)
		got, err := json.Marshal(b)
		if err != nil || string(got) != want {
			t.Errorf("got %s, want %s, %v", got, want, err)
		}
	}
}

// A line that is longer than any terminal is wide is no bar, and costs no search.
func TestLongLineIsNoBar(t *testing.T) {
	if b, ok := Last(strings.Repeat("x ", lineMax) + "43%|###| 43/100 [00:12<00:16, 350.12it/s]"); ok {
		t.Errorf("%s", b)
	}
}

func FuzzLast(f *testing.F) {
	f.Add(" 43%|###| 43/100 [00:12<1 day, 00:16, 350.12it/s]")
	f.Add("frame=  240 fps= 30 q=28.0 time=00:00:08.00")
	f.Fuzz(func(t *testing.T, text string) {
		b, ok := Last(text)
		if ok && (b.String() == "" || b.percent > 100 || b.Total > 0 && b.Done > b.Total) {
			t.Errorf("%q: %+v", text, b)
		}
	})
}

// The newest 4 KiB of a build, without a bar: each line is compared with what rows look for.
func BenchmarkLast(b *testing.B) {
	text := strings.Repeat("src/a/1/b.go:12:3: 40% of the calls [1] are wrong: (3 of 5)\n", 68)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, ok := Last(text); ok {
			b.Fatal("a bar")
		}
	}
}
