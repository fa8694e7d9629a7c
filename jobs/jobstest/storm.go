package jobstest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Rounds returns the number of rounds of a test that can be made longer: STORM_ROUNDS if it is set,
// or else few.
func Rounds(t testing.TB, few int) int {
	t.Helper()
	return int(number(t, "STORM_ROUNDS", uint64(few)))
}

// Storm returns the number of rounds of a test that chooses at random, and the seed of its choices:
// STORM_SEED if it is set, or else another one each time. It logs both.
func Storm(t testing.TB, few int) (rounds int, seed uint64) {
	t.Helper()
	rounds, seed = Rounds(t, few), number(t, "STORM_SEED", rand.Uint64())
	t.Logf("STORM_ROUNDS=%d STORM_SEED=%d", rounds, seed)
	return rounds, seed
}

// number returns the value of an environment variable, or unset.
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
