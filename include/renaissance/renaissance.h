/// Everything a program that embeds training needs.
#pragma once

#include "renaissance/backend/backend.h"
#include "renaissance/graph/compiler.h"
#include "renaissance/models.h"
#include "renaissance/train/checkpoint.h"
#include "renaissance/train/metrics.h"
#include "renaissance/train/recipe.h"
#include "renaissance/train/trainer.h"
