package jobstest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Rounds returns how many rounds of itself a test that may go on for long is to
// play: STORM_ROUNDS where it is set, else few.
func Rounds(t testing.TB, few int) int {
	t.Helper()
	return int(number(t, "STORM_ROUNDS", uint64(few)))
}

// Storm returns the rounds of a test that chooses at random, and the seed of its
// choices: STORM_SEED where it is set, else another each time. The log says both.
func Storm(t testing.TB, few int) (rounds int, seed uint64) {
	t.Helper()
	rounds, seed = Rounds(t, few), number(t, "STORM_SEED", rand.Uint64())
	t.Logf("STORM_ROUNDS=%d STORM_SEED=%d", rounds, seed)
	return rounds, seed
}

// number returns a number that the environment may set.
func number(t testing.TB, variable string, unset uint64) uint64 {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		return unset
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a number", variable, value)
	}
	return n
}
