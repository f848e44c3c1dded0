package main

import (
	"context"
	"fmt"
	"strconv"
)

// Strike is a record of the bird strikes: the columns that are used here. A CSV record reaches a Go
// handler as an object of strings.
type Strike struct {
	Airport string  `json:"Airport Name"`
	Date    string  `json:"Flight Date"`
	Damage  Damage  `json:"Effect Amount of damage"`
	Phase   string  `json:"Phase of flight"`
	Size    string  `json:"Wildlife Size"`
	Repair  Dollars `json:"Cost Repair"`
	Other   Dollars `json:"Cost Other"`
}

// Dollars is an amount of US dollars, a string in a CSV record.
type Dollars uint64

// UnmarshalText reads the amount from its string.
func (d *Dollars) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("no amount: %q", text)
	}
	*d = Dollars(n)
	return nil
}

// Damage is the damage that a strike did to the aircraft.
type Damage string

// The words and letters that the records use. Military ones have the class of the mishap instead
// of a word, A being the worst.
const (
	NoDamage    Damage = "None"
	Minor       Damage = "Minor"
	Medium      Damage = "Medium"
	Substantial Damage = "Substantial"
	ClassA      Damage = "A"
	ClassB      Damage = "B"
	ClassC      Damage = "C"
)

// Risk is the class of a strike.
type Risk string

// The classes, worst first.
const (
	Severe   Risk = "severe"
	High     Risk = "high"
	Moderate Risk = "moderate"
	Low      Risk = "low"
)

// severeCost makes a strike severe whatever its damage.
const severeCost = 100_000 // US dollars

// Assessment is the result for a Strike.
type Assessment struct {
	Airport   string `json:"airport"`
	Date      string `json:"date"`
	TotalCost uint64 `json:"total_cost"` // US dollars
	Risk      Risk   `json:"risk"`
}

// Assess returns the handler: it takes one record at a time, and an error fails that record alone.
func Assess(_ context.Context, s Strike) (Assessment, error) {
	risk, err := s.risk()
	if err != nil {
		return Assessment{}, err
	}
	return Assessment{Airport: s.Airport, Date: s.Date, TotalCost: s.cost(), Risk: risk}, nil
}

func (s Strike) cost() uint64 { return uint64(s.Other) + uint64(s.Repair) }

func (s Strike) risk() (Risk, error) {
	switch s.Damage {
	case Substantial, ClassA, ClassB:
		return Severe, nil
	case NoDamage, Minor, Medium, ClassC:
	default:
		return "", fmt.Errorf("unknown damage %q", s.Damage)
	}
	takingOff := s.Phase == "Take-off run" || s.Phase == "Climb"
	switch {
	case s.cost() >= severeCost:
		return Severe, nil
	case s.Damage != NoDamage || s.cost() > 0:
		return High, nil
	case s.Size == "Large" || s.Size == "Medium" && takingOff:
		return Moderate, nil
	}
	return Low, nil
}
