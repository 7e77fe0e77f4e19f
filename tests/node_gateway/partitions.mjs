// node partitions.mjs COUNT: reads a JSON array of run ids from standard input and prints the array of their partitions.

import { readFileSync } from 'node:fs'
import { partitionOf } from './partitioner.mjs'

const partitions = Number(process.argv[2])
console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(run => partitionOf(run, partitions))))
