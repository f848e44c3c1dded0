// Package text writes numbers and cuts texts for people.
package text
