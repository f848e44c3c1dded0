package redrive
