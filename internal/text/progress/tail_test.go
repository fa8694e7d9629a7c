package progress

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
)

// A bar that was not drawn again for ten seconds, while newer lines stand below it, is gone. One
// without lines below it can be of slow work, and stays.
func TestOldBarIsGone(t *testing.T) {
	const tqdm = "\r 43%|####      | 43/100 [00:12<00:16, 3.50it/s]"
	const done = "\r100%|##########| 100/100 [00:30<00:00, 3.50it/s]"
	for name, test := range map[string]struct {
		write []string // e…: to stderr, o…: to stdout, +…: a pause
		want  string
	}{
		"nothing below":              {[]string{"e" + tqdm, "+1h"}, "43 %, 43 of 100, 3.50 it/s, 0:16 left"},
		"blank lines below":          {[]string{"e" + tqdm + "\n\n", "o\n", "+1h"}, "43 %, 43 of 100, 3.50 it/s, 0:16 left"},
		"lines below, young":         {[]string{"e" + tqdm + "\nloading\n", "+9s"}, "43 %, 43 of 100, 3.50 it/s, 0:16 left"},
		"lines below":                {[]string{"e" + done + "\nloading\n", "+11s"}, ""},
		"lines below, later":         {[]string{"e" + done + "\n", "+1h", "eloading\n"}, ""},
		"lines of the other stream":  {[]string{"e" + done + "\n", "+1h", "oloading\n"}, ""},
		"lines before, other stream": {[]string{"oloading\n", "e" + done + "\n", "+1h"}, "100 %, 100 of 100, 3.50 it/s, 0:00 left"},
		"drawn again":                {[]string{"e" + done + "\n", "+1h", "oloading\n", "e" + tqdm, "oloading\n", "+5s"}, "43 %, 43 of 100, 3.50 it/s, 0:16 left"},
		"drawn again and again":      {[]string{"e" + tqdm, "oa\n", "+8s", "e" + tqdm, "ob\n", "+8s", "e" + tqdm, "oc\n", "+8s"}, "43 %, 43 of 100, 3.50 it/s, 0:16 left"},
		"another bar is young":       {[]string{"e" + done + "\nloading\n", "+1h", "o[2/9] CC b.o\n", "+1h"}, "22 %, 2 of 9"},
		"counts below an old bar":    {[]string{"e" + done + "\n", "+1h", "estep 1/8 (12%)\nstep 2/8 (25%)\n"}, "25 %, 2 of 8"},
		"counts, nothing below":      {[]string{"ostep 1/8 (12%)\n", "+1h", "ostep 2/8 (25%)\n", "+1h"}, "25 %, 2 of 8"},
		"counts, lines below":        {[]string{"ostep 7/8 (88%)\nstep 8/8 (100%)\nsaving\n", "+11s"}, ""},
		"counts, lines below, young": {[]string{"ostep 7/8 (88%)\nstep 8/8 (100%)\nsaving\n", "+9s"}, "100 %, 8 of 8"},
		"a count a minute":           {[]string{"ostep 1/8 (12%)\na\n", "+1m", "ostep 2/8 (25%)\nb\n", "+5s"}, "25 %, 2 of 8"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := output.NewStore(output.Config{}).NewLog("x")
				for _, w := range test.write {
					switch text := w[1:]; w[0] {
					case 'e':
						log.Write(output.Stderr, []byte(text))
					case 'o':
						log.Write(output.Stdout, []byte(text))
					default:
						d := must.Get(time.ParseDuration(text))(t)
						time.Sleep(d)
					}
				}
				b, ok := TailOf(log, 0, time.Now()).Bar()
				if ok != (test.want != "") || ok && b.String() != test.want {
					t.Errorf("got %q, %v; want %q", b, ok, test.want)
				}
			})
		})
	}
}

// What a job has replaced holds no bar.
func TestReplacedBarIsGone(t *testing.T) {
	log := output.NewStore(output.Config{}).NewLog("x")
	log.Write(output.Stdout, []byte("[1/9] CC a.o\n"))
	end := log.Stat().End
	log.Write(output.Stdout, []byte("next\n"))
	if b, ok := TailOf(log, end, time.Now()).Bar(); ok {
		t.Error(b)
	}
	if line := TailOf(log, end, time.Now()).Line(); line != "next" {
		t.Error(line)
	}
}

// Lines with counts are progress if two of them differ in a count that has risen.
func TestCountsThatRise(t *testing.T) {
	for lines, want := range map[string]string{
		"step 122/300 (40%)|step 123/300 (41%)":                                     "41 %, 123 of 300",
		"step 120/300 (40%) loss=0.5|eval 3.1|step 123/300 (41%) loss=0.4|eval 3.0": "41 %, 123 of 300",
		"Reading database ... 45%|Reading database ... 47%":                         "47 %",
		"Reading database ... 45%\rReading database ... 47%":                        "47 %",
		"Epoch 3/10|loss 0.3|Epoch 4/10|loss 0.2":                                   "40 %, 4 of 10",
		"Epoch [3/10], loss 0.3|Epoch [4/10], loss 0.2":                             "40 %, 4 of 10",
		"12:03:04 INFO batch 5 of 20|12:03:09 INFO batch 6 of 20":                   "30 %, 6 of 20",
		"Processing: 3.5%|Processing: 4.0%":                                         "4 %",
		"10% done|20% done|x":                                                       "20 %",
		"Downloaded 1,000/5,000 rows (20%)|Downloaded 2,000/5,000 rows (40%)":       "40 %, 2,000 of 5,000",
		"fold 1/5 epoch 9/10|fold 2/5 epoch 1/10":                                   "40 %, 2 of 5",
		"epoch 1/9, step 2/3|epoch 2/9, step 1/3|epoch 2/9, step 2/3":               "22 %, 2 of 9",
		"epoch 3/9|epoch 2/9, step 1/3|epoch 2/9, step 2/3":                         "",
		"step 123/300 (41%)":                                                        "",
		"step 123/300 (41%)|step 123/300 (41%)":                                     "",
		"step 124/300 (41%)|step 123/300 (41%)":                                     "",
		"step 122/300 (41%)|step 123/400 (31%)":                                     "",
		"step 122/300 (70%)|step 123/300 (75%)":                                     "",
		"score 12/20|score 14/20":                                                   "",
		"loss 0.3 (12%)|loss 0.2 (14%)":                                             "",
		"CPU: 12%|CPU: 40%":                                                         "",
		"/dev/sda1 252G 100G 40% /|/dev/sdb1 252G 110G 44% /x":                      "",
		"GET /a/1/2 200|GET /a/2/2 200":                                             "",
		"2026/11/21 loading|2026/11/22 loading":                                     "",
		"remaining 10%|remaining 20%":                                               "",
		"2 of 5 people|3 of 5 people":                                               "",
		"accuracy: 0.91 (43%)|accuracy: 0.92 (44%)":                                 "",
		"a.go 50.0% of statements|b.go 60.0% of statements":                         "",
		"step 5/0 (0%)|step 6/0 (0%)":                                               "",
		"epoch 11/10|epoch 12/10":                                                   "",
	} {
		log := output.NewStore(output.Config{}).NewLog("x")
		log.Write(output.Stdout, []byte(strings.ReplaceAll(lines, "|", "\n")+"\n"))
		b, ok := TailOf(log, 0, time.Now()).Bar()
		if ok != (want != "") || ok && b.String() != want {
			t.Errorf("%s: %q, %v; want %q", lines, b, ok, want)
		}
	}
}
