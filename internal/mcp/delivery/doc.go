// Package delivery brings replies to clients over the MCP SDK: in order, within a bound of memory,
// and with news of the call while it waits.
//
// A [Ticket] is the place of a call in its transport. [Room] bounds the answers that are not queued
// to their clients yet, and makes the SDK's results of replies. [Progress] reports to the client of
// a call that waits. [Changes] notify a client of new resources, and not too often.
//
// The package knows neither the tools nor what jobs are.
package delivery
